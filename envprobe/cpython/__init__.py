"""Reading a running CPython from outside: modules, functions, values, `os.environ`.

Nothing is started, stopped or written. What cannot be verified is refused.
"""
