/* A library that says of itself which NCCL it is, behind PAD bytes of constants. */
const struct {
    char pad[PAD];
    char text[sizeof TEXT];
} image = {{1}, TEXT};
