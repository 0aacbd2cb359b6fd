"""``python -m esker.demo``."""

import sys

from esker.demo.tour import tell

if __name__ == "__main__":
    sys.exit(tell())
