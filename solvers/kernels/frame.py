"""Define what a worker receives: 16 words, which `entry` fills from a call of XLA and every thread of the call reads.

| word | what |
|---|---|
| COUNT, K, N, MATRICES, SIZE | examples; coordinates; columns and number of the matrices; bytes of a number (8 or 4) |
| SCORES, MATRIX, START, FACTS | addresses of the inputs; START is 0 where there is none |
| OUT .. OUT + 3 | addresses of the outputs |
| NEXT, CHUNK | the next example that nobody has taken; how many are taken at once |
| HOW | where Python fills the frame: the method plus 8 times the threads |

`facts` are the numbers named below, then the bounds low [k] and high [k].
"""

from __future__ import annotations

COUNT, K, N, MATRICES, SIZE, SCORES, MATRIX, START, FACTS, OUT, NEXT, CHUNK = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    13,
    14,
)
HOW, WORDS = 15, 16
METHOD, KIND, CURVATURE, TILT, TOTAL, TOL, MAX_STEPS, THREADS = range(8)
HEAD = 8  # facts before the bounds
BOX, DENSE, SCALAR, LOW_RANK, RESPONSE = 0.0, 1.0, 2.0, 3.0, 4.0  # the methods
# the programs, each compiled alone and where it is first needed, and which of them serves a method
PROGRAMS = ("dense", "thin", "response")
PROGRAM_OF = (0, 0, 1, 1, 2)
