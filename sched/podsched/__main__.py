"""``python -m podsched`` is ``sched``."""

from podsched.cli.main import main

if __name__ == "__main__":
    main()
