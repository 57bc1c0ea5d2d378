def run(a, b):
    raise NotImplementedError


def figures(o):
    return []
