"""The bundled kernel and the images of GPU libraries, seen from outside: facts, no verdict."""
