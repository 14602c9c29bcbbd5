"""How what handlers print reaches their attempt's log, wherever they run."""
