"""CEL, the Common Expression Language, as Kubernetes v1.36 has it (cel-go v0.26).

tree           the nodes of an expression, their number and depth bounded
tokens, syntax text to a tree; macros are unfolded by macros
types, check   types of all parts, and which overloads are meant; then validators on literals
declarations   the functions, declared by operators, strings, times, lists,
               kubernetes, named_formats
costs          what calls cost, beforehand and when evaluated
estimate       the most that an expression can cost, by the sizes of its values (sizes)
program, paths closures that evaluate a tree and count its cost
state          the variables and the cost of one evaluation
values         values, their equality and order

Why it is our own: no package for Python has Kubernetes' types (quantity, semver, IP, CIDR, URL,
format), its libraries and its cost model, by which the API server refuses selectors and the
scheduler stops them. Measured for ``device.driver == ... && device.attributes[...].model ==
... && capacity >= ...`` on Python 3.11, in microseconds of CPU for each evaluation:

==============================  =====  ===========================================================
this                              3.1  with quantity and compareTo, cost counted; compiled in 1 ms
cel-expr-python 0.1.3             4.1  Google's C++; wheels for 3.11 to 3.14; no cost, cel.bind or
                                       functions of extensions unless configured
common-expression-language 0.10  11.4  Rust; wheels for 3.11 to 3.14; no types of the check, no cost
cel-python 0.5                  281.0  plain Python; no optional values, no cost
==============================  =====  ===========================================================

A unit of cost takes about 0.3 microseconds, so that a selector is stopped at the limit of a million
after a third of a second. Work that costs nothing in Kubernetes, such as comparing lists within
lists, is bounded by ``values.Budget``.

Not supported: messages of protocol buffers (``google.protobuf.Int64Value{value: 1}``), the
authorizer, and quantities that Go changes by comparing them.
"""
