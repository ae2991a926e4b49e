"""What surrounds a call: names given instead of objects, warnings, and packages that shadow this one."""
