"""``python -m graphc``: the command line."""

from graphc.cli import main

raise SystemExit(main())
