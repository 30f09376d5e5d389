"""Image files of every kind become the pixels that they show, or are refused with a reason; nothing else happens."""

import struct
import warnings
import zlib
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from torchvision.transforms import v2

from ablation.image_folder.decode import FORMATS, BadImageError, decode
from tests.pictures import Array, encoded, noise

SIZE = 8
GREY = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
OPAQUE = Image.new("L", (8, 8), 255)


def pixels(content: bytes, size: int = SIZE) -> Array:
    return decode(content, size)[0]


def words(content: bytes, size: int = SIZE) -> set[str]:
    return set(decode(content, size)[1])


def rgb(image: Image.Image) -> Array:
    return np.asarray(image.convert("RGB")).transpose(2, 0, 1)


# What is shown


@pytest.mark.parametrize("form", ["BMP", "PNG", "PPM", "TIFF"])
def test_an_image_of_the_right_size_is_itself(form: str) -> None:
    image = noise(0, SIZE, SIZE)
    np.testing.assert_array_equal(pixels(encoded(image, form)), rgb(image))
    assert words(encoded(image, form)) == set()


@pytest.mark.parametrize(("form", "how"), [("JPEG", {"quality": 100, "subsampling": 0}), ("WEBP", {"lossless": True})])
def test_lossy_formats_come_close(form: str, how: dict[str, Any]) -> None:
    image = noise(0, SIZE, SIZE)
    assert np.abs(pixels(encoded(image, form, **how)).astype(int) - rgb(image)).max() <= 6


@pytest.mark.parametrize(("width", "height"), [(24, 24), (48, 24), (24, 60), (16, 100), (20, 8), (4, 4)])
def test_scaling_and_cropping_are_torchvisions(width: int, height: int) -> None:
    image = noise(1, width, height)
    reference = v2.CenterCrop(SIZE)(v2.Resize(SIZE, antialias=True)(image))
    assert np.abs(pixels(encoded(image)).astype(int) - rgb(reference)).max() <= 1


def test_the_crop_is_central() -> None:
    image = Image.new("RGB", (30, 10), "red")
    image.paste("blue", (10, 0, 20, 10))
    assert (pixels(encoded(image), 10) == np.array([0, 0, 255])[:, None, None]).all()


@pytest.mark.parametrize(
    ("image", "expected", "how"),
    [
        (Image.fromarray(GREY), GREY, {"grey"}),
        (Image.fromarray(GREY > 100), np.where(GREY > 100, 255, 0), {"grey"}),
        (Image.fromarray(GREY.astype(np.uint16) * 257), GREY, {"grey", "16-bit"}),
        (Image.fromarray(GREY.astype(np.uint16) * 257 + 128), GREY, {"grey", "16-bit"}),  # rounds down
        (Image.fromarray(GREY.astype(np.uint16) * 257 + 129), GREY + 1, {"grey", "16-bit"}),  # rounds up
        (Image.merge("LA", [Image.fromarray(GREY), OPAQUE]), GREY, {"grey", "transparent"}),
        (Image.merge("LA", [Image.fromarray(GREY), Image.new("L", (8, 8))]), GREY * 0 + 255, {"grey", "transparent"}),
    ],
    ids=["8 bits", "1 bit", "16 bits", "round down", "round up", "opaque", "transparent"],
)  # fmt: skip
def test_grey_images_have_three_equal_channels(image: Image.Image, expected: Array, how: set[str]) -> None:
    np.testing.assert_array_equal(pixels(encoded(image)), np.stack([expected] * 3))
    assert words(encoded(image)) == how


def test_16_bits_of_any_format_and_byte_order() -> None:
    values = GREY.astype(np.uint16) * 257
    image, swapped = Image.fromarray(values), Image.frombytes("I;16B", (8, 8), values.byteswap().tobytes())
    for content in (encoded(image, "TIFF"), encoded(swapped, "TIFF"), encoded(image.convert("I"), "PPM")):
        np.testing.assert_array_equal(pixels(content), np.stack([GREY] * 3))
        assert words(content) == {"grey", "16-bit"}


def test_cmyk_is_converted() -> None:
    for form in ("JPEG", "TIFF"):
        content = encoded(Image.new("CMYK", (9, 9), (0, 255, 255, 0)), form)
        assert np.abs(pixels(content).astype(int) - np.array([255, 0, 0])[:, None, None]).max() <= 3
        assert words(content) == {"CMYK"}


def test_palettes_are_looked_up_before_anything_is_averaged() -> None:
    image = Image.new("P", (16, 16), 0)
    image.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    image.paste(2, (8, 0, 16, 16))
    for form in ("GIF", "PNG", "TIFF"):
        square = pixels(encoded(image, form), 4)
        assert square[:, 0, 0].tolist() == [255, 0, 0]
        assert square[:, 3, 3].tolist() == [0, 0, 255]
        assert "palette" in words(encoded(image, form))


def test_what_is_transparent_lies_on_white() -> None:
    image = Image.new("RGBA", (8, 8), (0, 0, 255, 255))
    image.paste((255, 0, 0, 0), (0, 0, 8, 4))
    image.paste((0, 0, 0, 127), (0, 6, 8, 8))
    for form, how in (("PNG", {}), ("WEBP", {"lossless": True, "exact": True}), ("TIFF", {})):
        square = pixels(encoded(image, form, **how))
        assert square[:, 0, 0].tolist() == [255, 255, 255]
        assert square[:, 5, 0].tolist() == [0, 0, 255]
        assert square[:, 7, 0].tolist() == [128, 128, 128]
        assert words(encoded(image, form, **how)) == {"transparent"}
    keyed = Image.new("P", (8, 8), 1)
    keyed.putpalette([0, 0, 0, 255, 0, 0])
    assert pixels(encoded(keyed, "PNG", transparency=1)).min() == 255
    assert words(encoded(keyed, "PNG", transparency=1)) == {"palette", "transparent"}
    assert pixels(encoded(keyed, "PNG", transparency=0))[:, 0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("form", ["GIF", "PNG", "TIFF", "WEBP"])
def test_of_several_frames_the_first_counts(form: str) -> None:
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "blue", "lime")]
    content = encoded(
        frames[0], form, save_all=True, append_images=frames[1:], **({"lossless": True} if form == "WEBP" else {})
    )
    assert (pixels(content) == np.array([255, 0, 0])[:, None, None]).all()
    assert "animated (first frame)" in words(content)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_images_are_turned_upright(form: str, orientation: int) -> None:
    image = noise(2, 3, 3).resize((24, 16), Image.Resampling.NEAREST)
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encoded(image, form, exif=exif, **({"quality": 95} if form in ("JPEG", "WEBP") else {}))
    with Image.open(BytesIO(content)) as opened:
        upright = ImageOps.exif_transpose(opened)
    expected = pixels(encoded(upright.convert("RGB")))
    assert np.abs(pixels(content).astype(int) - expected).max() <= 1
    assert words(content) == (set() if orientation == 1 or form == "TIFF" else {"turned by EXIF"})


def test_damaged_exif_turns_nothing() -> None:
    image = noise(3, 8, 8)
    content = encoded(image, "PNG", exif=b"Exif\0\0II*\0\xff\xff\xff\xffgarbage")
    np.testing.assert_array_equal(pixels(content), rgb(image))


def test_tiny_images_are_enlarged() -> None:
    content = encoded(Image.new("RGB", (1, 1), (10, 20, 30)))
    assert (pixels(content, 16) == np.array([10, 20, 30])[:, None, None]).all()
    assert words(content, 16) == {"enlarged"}


def test_a_thread_of_an_image_is_cropped_before_it_is_scaled() -> None:
    assert pixels(encoded(Image.new("L", (200_000, 1), 7)), 64).tolist() == [[[7] * 64] * 64] * 3


# What is refused


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "an empty file"),
        (b"hello", "no image of a known format"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "no image of a known format"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n", "no image of a known format"),
        (encoded(Image.fromarray(GREY.astype(np.float32)), "TIFF"), "floating-point pixels"),
        (encoded(Image.fromarray(GREY.astype(np.int32)), "TIFF"), "32-bit pixels"),
    ],
)  # fmt: skip
def test_what_is_no_image_or_none_of_a_known_range(content: bytes, reason: str) -> None:
    with pytest.raises(BadImageError, match=reason):
        decode(content, SIZE)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_truncated_images_are_refused(form: str, share: float) -> None:
    content = encoded(noise(4, 64, 64), form)
    decode(content, SIZE)
    with pytest.raises(BadImageError):
        decode(content[: int(share * len(content))], SIZE)


@pytest.mark.parametrize("limit", [50, 99])  # Pillow itself raises above twice the limit, and warns above it
def test_decompression_bombs_are_refused_before_they_are_unpacked(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    content = encoded(noise(5, 10, 11))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 110)
    decode(content, SIZE)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    monkeypatch.setattr(Image.Image, "load", lambda _: pytest.fail("a bomb was unpacked"))
    with warnings.catch_warnings(action="ignore"), pytest.raises(BadImageError, match="too many pixels"):
        decode(content, SIZE)


def test_a_real_bomb() -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0))
    bomb = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 10**6)) + chunk(b"IEND", b"")
    with pytest.raises(BadImageError, match="too many pixels"):
        decode(bomb, SIZE)


VALID = {form: encoded(noise(6, 9, 9), form) for form in FORMATS}


@settings(max_examples=300, deadline=None)
@given(
    form=st.sampled_from(FORMATS),
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=8),
    cut=st.integers(1, 500),
)
@pytest.mark.filterwarnings("ignore")
def test_damaged_bytes_give_pixels_or_a_reason(form: str, changes: list[tuple[int, int]], cut: int) -> None:
    content = bytearray(VALID[form])
    for place, value in changes:
        content[place % len(content)] = value
    _decodes_or_refuses(bytes(content))
    _decodes_or_refuses(bytes(content[:cut]))


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=200))
@pytest.mark.filterwarnings("ignore")
def test_arbitrary_bytes_give_pixels_or_a_reason(content: bytes) -> None:
    _decodes_or_refuses(content)


def _decodes_or_refuses(content: bytes) -> None:
    reason = None
    try:
        found, _ = decode(content, SIZE)
    except BadImageError as error:
        reason = str(error)
    if reason is None:
        assert found.shape == (3, SIZE, SIZE)
        assert found.dtype == np.dtype(np.uint8)
    else:
        assert reason
        assert reason.isprintable()
