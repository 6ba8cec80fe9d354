"""`famulus completion`: scripts by which a shell completes command lines. They ask the very program that is typed.

So they are right for `./famulus` of a checkout as well. What there is to complete, Typer finds out (`_FAMULUS_COMPLETE`
and its kin are its words for that); where it finds nothing, the shells offer files.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

#: Typer looks for it when it is called; its name follows from that of the program.
ASKED = "_FAMULUS_COMPLETE"

BASH = """\
_famulus() {
    local IFS=$'\\n'
    COMPREPLY=($(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \\
        _FAMULUS_COMPLETE=complete_bash "${1/#\\~/$HOME}" 2>/dev/null))
}
complete -o default -F _famulus famulus
"""
ZSH = """\
#compdef famulus
_famulus() {
    eval "$(_TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _FAMULUS_COMPLETE=complete_zsh ${~words[1]} 2>/dev/null)"
}
compdef _famulus famulus
"""
FISH = """\
function __famulus_completions
    set -lx _FAMULUS_COMPLETE complete_fish
    set -lx _TYPER_COMPLETE_FISH_ACTION $argv[1]
    set -lx _TYPER_COMPLETE_ARGS (commandline -cp)
    set -l words (commandline -opc)
    eval $words[1] 2>/dev/null
end
complete --command famulus --no-files \\
    --condition '__famulus_completions is-args' --arguments '(__famulus_completions get-args)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Which shell.")]) -> None:
    """Print a script by which a shell completes commands, options, services and files.

    In ~/.bashrc, or in ~/.zshrc after compinit; then `./famulus` is completed as well:

    \b
      eval "$(famulus completion bash)"

    For fish:

    \b
      famulus completion fish > ~/.config/fish/completions/famulus.fish
    """
    typer.echo(SCRIPTS[shell], nl=False)
