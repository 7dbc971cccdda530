#: That of the jar, which the pom.xml files name.
__version__ = "0.0.1"
