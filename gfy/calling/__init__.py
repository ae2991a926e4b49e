"""Define what surrounds a call: names given instead of objects, warnings, and packages that hide this one."""
