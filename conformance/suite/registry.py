"""The list of behaviours, and why some cells cannot exist."""

BEHAVIOURS = []


class Behaviour:
    def __init__(self, title, check, gaps):
        self.title, self.check, self.gaps = title, check, gaps
        self.description = " ".join((check.__doc__ or "").split())

    def gap(self, column):
        """Why there is no such cell in this column; None if there is one."""
        for condition, reason in self.gaps:
            if condition(column):
                return reason
        return None


def behaviour(title, *gaps):
    """Registers a function that checks one behaviour in a cell. `gaps` are pairs of a condition on the column and the reason why it
    has no such cell."""

    def register(check):
        BEHAVIOURS.append(Behaviour(title, check, gaps))
        return check

    return register


def plain(column):
    return column.kind == "plain"


def php(column):
    """PHP where PHP itself writes the head of the reply."""
    return column.language == "PHP" and (column.kind == "plain" or column.mode != "cgiplus")


LIBRARY_ONLY = (plain, "A plain script does not use the library.")
