"""What holds for every test: one thread each, so that tests run side by side, and no deadline on a busy machine."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
