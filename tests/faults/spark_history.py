"""``python -m tests.faults.spark_history ROOT NUMBER TURNS FOLDER``: a process with a Spark of its own that writes.

It appends rows of its own, deletes and updates some of them, and says for each write when it is done.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import sidestep
from sidestep.errors import SidestepError
from tests.faults.spark_writes import frame, session

SPAN = 1_000


def main(root: str, number: int, turns: int, folder: Path) -> None:
    with session(folder) as spark:
        for turn in range(turns):
            first = SPAN * (number + 1) + 20 * turn
            done = {"append": first, "deleted": -1, "updated": -1, "optimized": False}
            sidestep.append(spark, root, frame(spark, first, 10))
            sidestep.delete(spark, root, f"x = {first + 3}")
            done["deleted"] = first + 3
            sidestep.update(spark, root, {"v": "77"}, f"x = {first + 5}")
            done["updated"] = first + 5
            if turn == 0:
                try:
                    sidestep.optimize(spark, root, all=True)
                    done["optimized"] = True
                except SidestepError:
                    pass  # others were quicker five times
            print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
