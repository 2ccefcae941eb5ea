"""Commands that refuse an option of one value that is given twice: click takes the last one without a word."""

from __future__ import annotations

from collections import Counter

import click


class OnceCommand(click.Command):
    """A command whose options are given once, unless they are repeatable; flags may be repeated."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words. Raises BadParameter for an option that is given twice."""
        if not ctx.resilient_parsing:  # as for completion
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for parameter, count in Counter(order).items():
                is_single = isinstance(parameter, click.Option) and not parameter.multiple and not parameter.is_flag
                if is_single and count > 1:
                    raise click.BadParameter(f"it takes one value, and is given {count}", ctx, parameter)
        return super().parse_args(ctx, args)
