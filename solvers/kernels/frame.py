"""Define the words of a call frame, which `entry` fills from a call of XLA or Python fills, and which every
thread reads.

| word | what it holds |
|---|---|
| COUNT, K, N, MATRICES | how many examples, coordinates, columns of a matrix and matrices there are |
| SIZE | the bytes of a number, 8 or 4 |
| SCORES, MATRIX, START, FACTS | the addresses of the inputs; START is 0 where there is none |
| OUT .. OUT + 3 | the addresses of the outputs |
| NEXT, CHUNK | the next example that no thread has taken, and how many a thread takes at once |
| HOW | where Python fills the frame: the method plus 8 times the threads |
| TARGET, LOSS | the addresses of targets y [B, k] and of the losses [B] that are written; 0 for no loss |
| FLAG | a dense solve: 1 where it has to check that U is negative semi-definite; a slope: 1 where g is one number |
| SUM, SHARE | the address at which `direct` writes the sum of the losses divided by SHARE; 0 for none |
| UNSOLVED | written: 1 where an example is not solved, or its U is not plainly negative semi-definite |
| OUTSIDE | written: 1 where a target is not plainly in C |

`facts` are the numbers named below, then the bounds low [k] and high [k].
"""

from __future__ import annotations

COUNT, K, N, MATRICES, SIZE, SCORES, MATRIX, START, FACTS, OUT = range(10)
NEXT, CHUNK, HOW, TARGET, LOSS, FLAG, UNSOLVED, OUTSIDE, SUM, SHARE = range(13, 23)
WORDS = 23
METHOD, KIND, CURVATURE, TILT, TOTAL, TOL, MAX_STEPS, THREADS, TARGET_TOL = range(9)
HEAD = 9  # facts before the bounds
BOX, DENSE, SCALAR, LOW_RANK, RESPONSE, LINEAR, SLOPE = map(float, range(7))  # the methods
# the programs, each compiled alone where it is first needed, and the number of the program for each method
PROGRAMS = ("dense", "thin", "response", "linear", "slope")
PROGRAM_OF = (0, 0, 1, 1, 2, 3, 4)
