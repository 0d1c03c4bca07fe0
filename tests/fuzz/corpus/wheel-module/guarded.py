try:
    import pkg_resources
except (ImportError, a.B):
    pkg_resources = None
if x:
    pass
