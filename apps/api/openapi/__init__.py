"""What the API says of itself: docs/openapi.yaml, /api/v1/openapi.json and the pages at /api/docs.

A view's method declares its operation with `documented` (declare.py). Bodies are named schemas, data in schemas/;
parameters of queries, headers and refusals stand once, in parameters.py, headers.py and refusals.py; document.py puts
all of it together for drf-spectacular.
"""
