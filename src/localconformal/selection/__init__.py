"""``law="auto"``: the law and the adjustment, chosen on training rows."""

from localconformal.selection.choice import Selection, Task, is_auto, select, select_law

__all__ = ["Selection", "Task", "is_auto", "select", "select_law"]
