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


def php(column):
    """PHP where PHP itself writes the head of the reply."""
    return column.language == "PHP" and (column.kind != "library" or column.mode != "cgiplus")


def application(column):
    return column.kind == "application"


LIBRARY_ONLY = (lambda column: column.kind != "library", "Only scripts with the library do this.")
APPLICATION_STATUS = (application, "An application gives a status and a head with every reply.")
APPLICATION_RETURNS = (application, "An application returns; the process is not its own to end.")
