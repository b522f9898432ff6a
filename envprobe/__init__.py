"""Did what was set actually reach every worker, and if not, at which step was it lost?"""

__version__ = "0.1.0"
