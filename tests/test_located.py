"""Plain data with places: what YAML means here, what is refused, and where a problem is said to stand."""

import os
import socket
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from ablation import located
from ablation.located import BAD, Document, Problem, dotted, nearest, shown, suggestion
from tests.fuzzing import fuzz


def problems(text: str) -> list[str]:
    return [str(problem) for problem in located.parse(text, "f").problems]


def test_scalars_are_those_of_yaml_1_2() -> None:
    document = located.parse("[1e-3, 64_000, 010, 0x1f, 0o17, -3, .5, no, on, true, ~, 2020-01-01, '3', =]", "f")
    assert document.data == [1e-3, 64000, 10, 31, 15, -3, 0.5, "no", "on", True, None, "2020-01-01", "3", "="]
    assert not document.problems


def test_every_key_and_item_has_its_line() -> None:
    document = located.parse("a:\n  b: 1\n  c:\n    - x\n    - {d: 2}\n", "f")
    assert document.places == {
        (): 1, ("a",): 1, ("a", "b"): 2, ("a", "c"): 3, ("a", "c", 0): 4, ("a", "c", 1): 5, ("a", "c", 1, "d"): 5,
    }  # fmt: skip


def test_a_problem_stands_at_the_innermost_known_place_and_once() -> None:
    document = located.parse("a:\n  b: 1\n", "f")
    for _ in range(2):
        document.report(("a", "b", 3, "missing"), "is wrong")
    assert [str(p) for p in document.problems] == ["f:2: a.b[3].missing: is wrong"]


def test_problems_are_sorted_by_line_and_the_command_line_comes_last() -> None:
    document = located.parse("a: 1\nb: 2\n", "f")
    document.put(("a",), located.parse("3", "--set a"))
    for key in "ab":
        document.report((key,), "is wrong")
    assert [str(p) for p in document.problems] == ["f:2: b: is wrong", "--set a: a: is wrong"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\na: 2\nb: 1\nb: 2\n", ["f:2: a: stands twice; the first is in line 1", "f:4: b: stands twice"]),
        ("a: {x: 1,\n x: 2}", ["f:2: a.x: stands twice"]),
        ("1: a\ntrue: b\n[1]: c", ["f:1: a key should be a word, not 1", "f:2: a key", "f:3: a key"]),
        ("? {a: 1}\n: 2", ["f:1: a key should be a word, not a collection"]),
        ("a: 1\nb: !!python/object:os.system {}", ["f:2: b: has the tag"]),
        ("b: !!str 3", ["f:1: b: has the tag"]),
        ("!custom\na: 1", ["f:1: has the tag !custom"]),
        ("a: .nan\nb: [1,\n -.inf]", ["f:1: a: should be finite", "f:3: b[1]: should be finite"]),
        ("a: 9223372036854775808", ["f:1: a: is too large"]),
        ("a: " + "9" * 5000, ["f:1: a: is too large"]),
        ("a: 1e999", ["f:1: a: should be finite"]),
        ("a: 1\n<<: {b: 2}", ["f:2: <<: YAML 1.2 has no merge key"]),
        ("%YAML 1.1\n---\na: no", ["f:1: directives"]),
        ("a: 1\n---\na: 2", ["f:2: is not YAML"]),
        ("a: 1\nb: [1, 2", ["f:2: is not YAML"]),
        ("a: 1\n b: 2", ["f:2: is not YAML"]),
        ("a: 1\nb: *nowhere", ["f:2: is not YAML"]),
        ("a: 1\nb: \0", ["f:2: is not YAML: has the control character 0x0"]),
        ('a: 1\nb: "\\e[31m"', ["f:2: b: has a control character"]),
        ('a: "\\ud800"', ["f:1: a: has a control character"]),
        ('"\\e": 1', ["f:1: a key has a control character"]),
        ('a: 1\nb: "\\UFFFFFFFF"', ["f:2: is not YAML"]),
        ("a: 1\nb: 'x\n", ["f:3: is not YAML: while scanning a quoted scalar that begins in line 2"]),
        ("b\u0430se: 1", ["f:1: b\u0430se: has the character CYRILLIC SMALL LETTER A; keys are plain ASCII"]),
        ("a: 1\nb: {? [c] : 1}", ["f:2: b: a key should be a word"]),
        ("a:\n " + "[" * 60 + "]" * 60, ["f:2: nests deeper than 50 levels"]),
        ("a:\n " + "[" * 5000, ["f:2: nests deeper than 50 levels"]),
        ("&a [*a]", ["f:1: nests deeper than 50 levels"]),
    ],
)  # fmt: skip
def test_what_is_refused_and_where(text: str, expected: list[str]) -> None:
    found = problems(text)
    assert len(found) == len(expected)
    assert all(message.startswith(start) for message, start in zip(found, expected, strict=True)), found


def test_aliases_may_repeat_but_not_explode() -> None:
    document = located.parse("a: &x {b: 1}\nc: *x\nd: &x 2\n", "f")
    assert document.data == {"a": {"b": 1}, "c": {"b": 1}, "d": 2}
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert problems("\n".join(["a0: &a0 [1]", *levels])) == ["f:1: has more than 100,000 values"]


def test_what_is_refused_is_bad_and_the_rest_is_read() -> None:
    assert located.parse("a: [1, .nan]\nb: 2", "f").data == {"a": [1, BAD], "b": 2}


def test_a_value_of_the_command_line_has_no_lines() -> None:
    document = located.parse("a: 1", "f")
    document.put(("a",), located.parse("{x: 1, x: 2}", "--set a"))
    assert [str(p) for p in document.problems] == ["--set a: x: stands twice"]


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (None, None, "cannot be read: No such file"),
        (b"a: 1\nb: \xff\n", 2, "is not UTF-8"),
        (b"#" * (located.MAX_BYTES + 1), None, "is larger than 256 KiB"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes | None, line: int | None, message: str) -> None:
    file = tmp_path / "f.yaml"
    if content is not None:
        file.write_bytes(content)
    document = located.read(file)
    (problem,) = document.problems
    assert document.data is BAD
    assert (problem.file, problem.line) == (str(file), line)
    assert problem.message.startswith(message)


def test_a_folder_and_an_impossible_name_cannot_be_read(tmp_path: Path) -> None:
    assert "is a folder, not a file" in str(located.read(tmp_path).problems[0])
    assert "cannot be read" in str(located.read(Path("a\0b")).problems[0])


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("pipe", "is a pipe, not a file"),
        ("socket", "is a socket, not a file"),
        ("device", "is a device, not a file"),
        ("sparse", "is larger than 256 KiB"),
        ("loop", "cannot be read: Too many levels of symbolic links"),
        ("dangling", "cannot be read: No such file"),
        ("link to a folder", "is a folder, not a file"),
    ],
)
def test_what_only_looks_like_a_file_is_named_and_nobody_waits(tmp_path: Path, kind: str, message: str) -> None:
    path = tmp_path / "f.yaml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(str(path))
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(10**9)
    else:
        path.symlink_to({"device": Path("/dev/zero"), "loop": path, "dangling": tmp_path / "no"}.get(kind, tmp_path))
    (problem,) = located.read(path).problems
    assert problem.message.startswith(message)


def test_a_link_to_a_file_is_as_good_as_the_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a: 1")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    assert located.read(tmp_path / "link").data == {"a": 1}


@pytest.mark.parametrize("text", ["0o_", "0x_", "0b_", "+0o", "-0x_"])
def test_a_number_without_digits_is_a_problem_or_a_text(text: str) -> None:
    document = located.parse(f"a: {text}", "f")
    assert document.problems or document.data == {"a": text}


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert located.read(tmp_path / "f").data == {"a": 1, "b": 2}


texts = st.text("abc019:-[]{}&*!?|>'\"%@`#,. \n\t\\~<=eExouU_+\0\x1b\x85", max_size=60) | st.text(max_size=60)


@fuzz
@given(texts)
def test_any_text_gives_data_or_problems(text: str) -> None:
    document = located.parse(text, "f")
    assert isinstance(document, Document)
    assert document.problems or document.data is not BAD
    assert all(problem.line is not None and problem.line >= 1 for problem in document.problems)


words = st.text("abcxyz", min_size=1, max_size=4)
numbers = st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=10,
)


@fuzz
@given(plain)
def test_data_that_was_written_as_yaml_is_read_again(data: object) -> None:
    document = located.parse(_dumped(data), "f")
    assert document.data == data
    assert not document.problems


def _dumped(data: object) -> str:
    stream = StringIO()
    YAML(typ="safe", pure=True).dump(data, stream)
    return stream.getvalue()


def test_helpers_of_messages() -> None:
    assert dotted(("grid", "batch_size", 2, "x")) == "grid.batch_size[2].x"
    assert shown({"a": [1, True, None]}) == '{"a": [1, true, null]}'
    assert len(shown("x" * 100)) <= 62
    assert nearest("batchsize", ["loss", "batch_size"]) == "batch_size"
    assert nearest("tau", ["loss", "batch_size"]) is None
    assert suggestion("lss", ["loss", "seed"]) == "did you mean loss?"
    assert suggestion("tau", ["loss", "seed"]) == "known: loss, seed"
    assert str(Problem("f", None, "", "is wrong")) == "f: is wrong"
