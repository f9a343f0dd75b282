"""`python -m nfslab`: the same as the console script."""

from nfslab.cli import main

if __name__ == "__main__":
    main()
