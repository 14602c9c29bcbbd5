"""What every part stands on: clock, loop, SQL loader, service factories, typed settings, errors, metrics.

No models live here and no app is imported from here.
"""
