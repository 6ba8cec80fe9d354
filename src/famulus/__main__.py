"""`python -m famulus` is `famulus`."""

from famulus.cli.main import run

if __name__ == "__main__":
    run()
