"""python -m remp = remp"""

from remp.cli import main

main()
