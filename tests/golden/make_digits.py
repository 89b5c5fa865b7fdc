#!/usr/bin/env python3
"""Writes tests/golden/digits.txt: 256 handwritten digits, one a line: 64 pixels, a letter from a (0)
to q (16) each, and the digit.

  tests/golden/make_digits.py digits.npz

The file given has `image`, u8[n, 8, 8], and `label`: UCI's "Optical Recognition of Handwritten
Digits" (E. Alpaydin, C. Kaynak), test part, licensed CC BY 4.0.
"""

import sys
from pathlib import Path

import numpy as np

WORDS = '# UCI "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak), CC BY 4.0; make_digits.py\n'

data = np.load(sys.argv[1])
images, labels = data["image"], data["label"]
lines = ["".join(chr(ord("a") + int(v)) for v in image.reshape(-1)) + f" {int(label)}\n"
         for image, label in zip(images[:256], labels[:256])]
(Path(__file__).parent / "digits.txt").write_text(WORDS + "".join(lines))
