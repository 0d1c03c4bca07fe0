__import__("pkg_resources").declare_namespace(__name__)


class A:
    try:
        import pkg_resources
    except KeyError:
        pass
