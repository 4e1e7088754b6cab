"""`coordinatord completion`: shell completion of commands, options, and names of groups and topics."""

from __future__ import annotations

import click

from coordinatord.cli.terminal import echo_data


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion of a shell.

    For bash, put `eval "$(coordinatord completion bash)"` into ~/.bashrc; for zsh, the like into ~/.zshrc; for fish,
    `coordinatord completion fish | source` into its config. Names of groups and topics come from the cluster that the
    line names with --bootstrap.
    """
    from click.shell_completion import get_completion_class

    from coordinatord.cli import cli

    found = get_completion_class(shell)
    assert found is not None
    echo_data(found(cli, {}, "coordinatord", "_COORDINATORD_COMPLETE").source() + "\n")
