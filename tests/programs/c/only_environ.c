/* A library for LD_PRELOAD that defines `environ` and nothing else, for its own use. */
char **environ;
