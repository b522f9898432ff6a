// How fast mma.sync can be here: nothing but independent products of registers.

constexpr int CHAINS = 16;

extern "C" __global__ void __launch_bounds__(256, 1)
multiply_only(const unsigned int *operands, float *out, int rounds) {
    unsigned int a[4][4], b[4][2];
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) a[i][j] = operands[(i * 4 + j) * 256 + threadIdx.x];
        for (int j = 0; j < 2; ++j) b[i][j] = operands[(16 + i * 2 + j) * 256 + threadIdx.x];
    }
    float sum[CHAINS][4] = {};
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int i = 0; i < CHAINS; ++i)
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                "{%8,%9}, {%0,%1,%2,%3};"
                : "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]), "+f"(sum[i][3])
                : "r"(a[i & 3][0]), "r"(a[i & 3][1]), "r"(a[i & 3][2]), "r"(a[i & 3][3]), "r"(b[i >> 2][0]),
                  "r"(b[i >> 2][1]));
    }
    float all = 0.0f;
    for (int i = 0; i < CHAINS; ++i)
        for (int j = 0; j < 4; ++j) all += sum[i][j];
    out[blockIdx.x * 256 + threadIdx.x] = all;
}
