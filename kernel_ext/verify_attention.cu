// Attention of the verify step of tree speculation over a latent (MLA) KV pool.
//
// One block keeps 64 rows (a row is one head of one draft token of a request) and walks over the keys
// of the request in tiles of 32. Its 8 warps are two teams of 4; a team has 32 of the rows and works
// at its own pace, so that one multiplies while the other waits. In a team
//
//   scores   the 576 columns are quartered over the warps: each keeps its part of Q in registers for
//            the whole walk; partial scores meet in shared memory, where each warp sums 8 rows
//   values   the 512 output columns are quartered over the warps, which keep them in registers
//
// A key row is copied into shared memory once for all 64 rows, by the team that leaves its place last.
// Only mma.sync, ldmatrix, mbarrier and cp.async are used, the last in its bulk form from sm_90 on:
// they exist on every architecture from sm_80 to sm_121.
//
// Accumulators and Q take 200 of 255 registers. With too few left the assembler loads each fragment right
// before the product that needs it, and the product waits: what is not needed in a loop is read or
// computed anew (thread_now, kept_lengths), and the two halves of a tile are one loop.
//
// Work is divided by the device alone, because lengths live there: the key tiles of all requests are
// laid end to end and cut into equal chunks, one per group of blocks; the blocks of a group differ
// in their rows only and walk the same keys at the same time, so that the second level cache serves
// all but the first. A chunk that covers only part of a request leaves its accumulators in the
// workspace, and merge_partials joins them.

typedef unsigned char u8;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

constexpr int HEAD_DIM = 576;
constexpr int VALUE_DIM = 512;
constexpr int ROWS = 64;
constexpr int KEYS = 32;
constexpr int TEAMS = 2;
constexpr int PARTS = 4;
constexpr int THREADS = TEAMS * PARTS * 32;
constexpr int STEPS = HEAD_DIM / 16 / PARTS;
constexpr int STAGES = ROWS / KEYS;
constexpr int OWNED = KEYS / PARTS;  // rows of Q, of scores and of P that one warp of a team has

// 16 bytes more than a row has: ldmatrix then finds the same columns of 8 rows in different banks.
constexpr int ROW_BYTES = HEAD_DIM * 2;
constexpr int PITCH = ROW_BYTES + 16;
constexpr int STAGE_BYTES = KEYS * PITCH;
constexpr int LETTER_BYTES = 1024;
constexpr int MAILBOX_BYTES = (PARTS - 1) * LETTER_BYTES;
// P of a warp replaces the second half of its first letter.
constexpr int P_OFFSET = LETTER_BYTES / 2;
constexpr int MAIL_OFFSET = STAGES * STAGE_BYTES;
constexpr int FACTOR_OFFSET = MAIL_OFFSET + TEAMS * PARTS * MAILBOX_BYTES;
constexpr int BARRIER_OFFSET = FACTOR_OFFSET + ROWS * 4;
constexpr int RELEASE_OFFSET = BARRIER_OFFSET + STAGES * 8;
constexpr int LENGTHS_OFFSET = RELEASE_OFFSET + STAGES * PARTS * 4;
constexpr int MASK_OFFSET = LENGTHS_OFFSET + 16;
static_assert(MASK_OFFSET + ROWS * 8 == LAUNCH_SHARED_BYTES && THREADS == LAUNCH_THREADS);

// A row's maximum is replaced only when it grew by more than this power of two: until then the
// probabilities stay below 2^8, which neither bfloat16 nor the fp32 sums mind.
constexpr float SLACK = 8.0f;

#define NEGATIVE_INFINITY __int_as_float(0xff800000)

struct Lengths {
    int prefix_start;
    int prefix;
    int query_start;
    int drafts;
};

struct Sizes {
    const void *kv_indptr;
    const void *qo_indptr;
    int requests;
    int wide;  // bit 0: kv_indptr holds 64-bit numbers, bit 1: qo_indptr, bit 2: kv_indices
};

// threadIdx.x, read anew: what is made of it is then no invariant of a loop that would keep a register.
__device__ __forceinline__ int thread_now() {
    int out;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(out));
    return out;
}

__device__ __forceinline__ i64 index_at(const void *array, i64 at, bool wide) {
    return wide ? __ldg((const i64 *)array + at) : (i64)__ldg((const int *)array + at);
}

__device__ __forceinline__ Lengths lengths_of(const Sizes &sizes, int request) {
    Lengths out;
    const bool wide_kv = sizes.wide & 1, wide_qo = sizes.wide & 2;
    out.prefix_start = (int)index_at(sizes.kv_indptr, request, wide_kv);
    out.prefix = (int)index_at(sizes.kv_indptr, request + 1, wide_kv) - out.prefix_start;
    out.query_start = (int)index_at(sizes.qo_indptr, request, wide_qo);
    out.drafts = (int)index_at(sizes.qo_indptr, request + 1, wide_qo) - out.query_start;
    return out;
}

__device__ __forceinline__ int tiles_of(const Lengths &lengths) {
    return lengths.drafts > 0 ? (lengths.prefix + lengths.drafts + KEYS - 1) / KEYS : 0;
}

// The sum of the tiles of all requests; every warp computes it for itself.
__device__ __forceinline__ int total_tiles(const Sizes &sizes) {
    int sum = 0;
#pragma unroll 1
    for (int request = threadIdx.x & 31; request < sizes.requests; request += 32)
        sum += tiles_of(lengths_of(sizes, request));
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(~0u, sum, offset);
    return sum;
}

// The request that holds a tile of the common line, and the tile at which that request begins.
__device__ __forceinline__ void find_request(const Sizes &sizes, int tile, int &request, int &begin) {
    const int lane = threadIdx.x & 31;
    int before = 0;
    for (int base = 0;; base += 32) {
        const int mine = base + lane;
        const int tiles = mine < sizes.requests ? tiles_of(lengths_of(sizes, mine)) : 0;
        int upto = tiles;
        for (int offset = 1; offset < 32; offset <<= 1) {
            const int other = __shfl_up_sync(~0u, upto, offset);
            if (lane >= offset) upto += other;
        }
        const u32 found = __ballot_sync(~0u, before + upto > tile);
        if (found) {
            const int first = __ffs(found) - 1;
            request = base + first;
            begin = before + __shfl_sync(~0u, upto - tiles, first);
            return;
        }
        before += __shfl_sync(~0u, upto, 31);
    }
}

__device__ __forceinline__ int chunk_of(int tiles, int groups, int least) {
    return max((tiles + groups - 1) / groups, least);
}

__device__ __forceinline__ void load_matrices(u32 (&to)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

__device__ __forceinline__ void load_transposed(u32 (&to)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

__device__ __forceinline__ void multiply(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ u32 pack(float low, float high) {
    u32 out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}

__device__ __forceinline__ float power_of_two(float x) {
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
}

__device__ __forceinline__ float reciprocal(float x) {
    float out;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
}

__device__ __forceinline__ void store_four(u32 to, float a, float b, float c, float d) {
    asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(to), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

__device__ __forceinline__ void add_four(float *to, u32 from) {
    float a, b, c, d;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(a), "=f"(b), "=f"(c), "=f"(d)
                 : "r"(from)
                 : "memory");
    to[0] += a, to[1] += b, to[2] += c, to[3] += d;
}

__device__ __forceinline__ void store_word(u32 to, u32 value) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}

__device__ __forceinline__ float load_float(u32 from) {
    float out;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(out) : "r"(from) : "memory");
    return out;
}

__device__ __forceinline__ void meet(int team) {
    asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(PARTS * 32) : "memory");
}

// The same, and whether any thread of the team said yes.
__device__ __forceinline__ bool meet_any(int team, bool mine) {
    u32 any;
    asm volatile(
        "{ .reg .pred p, q; setp.ne.u32 p, %1, 0; bar.red.or.pred q, %2, %3, p; selp.u32 %0, 1, 0, q; }"
        : "=r"(any)
        : "r"((u32)mine), "r"(team + 1), "n"(PARTS * 32)
        : "memory");
    return any;
}

// A stage is filled by four warps. From sm_90 on a lane orders the copy of a whole row, and the barrier of
// the stage counts bytes; before, each lane copies 16 bytes at a time.
#if __CUDA_ARCH__ >= 900
#define BULK 1
constexpr int FILLERS = PARTS;
#else
#define BULK 0
constexpr int FILLERS = PARTS * 32;
#endif

__device__ __forceinline__ void make_barrier(u32 barrier) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(FILLERS) : "memory");
}

// Lets the unit that copies rows see them.
__device__ __forceinline__ void show_barriers() {
#if BULK
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ __forceinline__ void await(u32 barrier, u32 parity) {
#if __CUDA_ARCH__ >= 900
#define TRY "mbarrier.try_wait.parity.shared.b64"
#else
#define TRY "mbarrier.test_wait.parity.shared.b64"
#endif
    u32 done;
    do {
        asm volatile("{ .reg .pred p; " TRY " p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!done);
}

// Everything of one launch that does not change on the way.
struct Problem {
    Sizes sizes;
    const char *q;
    const char *draft_keys;
    const char *pool;
    const void *kv_indices;
    const u8 *mask;
    const i64 *mask_indptr;
    int heads;
    float scale;
    i64 q_token_bytes;
    i64 q_head_bytes;
    i64 draft_bytes;
    i64 pool_bytes;
};

// What a walk needs now and then lies in shared memory: no register is free in its loop. The number of
// draft tokens (64 at most) shares a word with the number of the tile behind the walk's last one.
constexpr int DRAFT_BITS = 7;

__device__ __forceinline__ Lengths kept_lengths(u32 shared, int &end_tile) {
    Lengths n;
    int both;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(n.prefix_start), "=r"(n.prefix), "=r"(n.query_start), "=r"(both)
                 : "r"(shared + LENGTHS_OFFSET)
                 : "memory");
    n.drafts = both & (1 << DRAFT_BITS) - 1;
    end_tile = both >> DRAFT_BITS;
    return n;
}

// The mask of the draft token of one of the block's rows; a null pointer for a row without a token.
__device__ __forceinline__ const u8 *kept_mask(u32 shared, int row) {
    u64 out;
    asm volatile("ld.shared.u64 %0, [%1];" : "=l"(out) : "r"(shared + MASK_OFFSET + row * 8) : "memory");
    return (const u8 *)out;
}

__device__ __forceinline__ void keep(const Problem &p, const Lengths &n, int request, int first_row, int end_tile,
                                     u32 shared) {
    const int row = threadIdx.x, token = (first_row + row) / p.heads;
    if (row < ROWS) {
        const u8 *mask = nullptr;
        if (token < n.drafts)
            mask = p.mask + __ldg(p.mask_indptr + request) + (i64)token * (n.prefix + n.drafts);
        asm volatile("st.shared.u64 [%0], %1;" ::"r"(shared + MASK_OFFSET + row * 8), "l"((u64)mask) : "memory");
    }
    if (row == 0)
        asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(shared + LENGTHS_OFFSET),
                     "r"(n.prefix_start), "r"(n.prefix), "r"(n.query_start), "r"(end_tile << DRAFT_BITS | n.drafts)
                     : "memory");
}

// Where key number `key` of a request lies: a slot, or the complement of a draft token's row. Behind the
// last key the last one is meant: its probability there is zero, and zero times what it holds is too.
__device__ __forceinline__ int key_slot(const Problem &p, const Lengths &n, int key) {
    key = min(key, n.prefix + n.drafts - 1);
    // The lower half of a 64-bit number is all of a slot.
    if (key < n.prefix) return __ldg((const int *)p.kv_indices + ((i64)(n.prefix_start + key) << (p.sizes.wide >> 2)));
    return ~(n.query_start + key - n.prefix);
}

__device__ __forceinline__ const char *key_address(const Problem &p, int slot) {
    return slot >= 0 ? p.pool + slot * p.pool_bytes : p.draft_keys + ~slot * p.draft_bytes;
}

// Where a thread stands, and what is its own in shared memory.
struct Place {
    u32 shared;
    int thread;
    __device__ __forceinline__ int lane() const { return thread & 31; }
    __device__ __forceinline__ int team() const { return thread / (PARTS * 32); }
    __device__ __forceinline__ int part() const { return thread / 32 % PARTS; }
    __device__ __forceinline__ int own_key() const { return part() * OWNED + lane() % OWNED; }
    __device__ __forceinline__ u32 mail() const { return shared + MAIL_OFFSET + team() * PARTS * MAILBOX_BYTES; }
    __device__ __forceinline__ u32 team_factors() const { return shared + FACTOR_OFFSET + team() * KEYS * 4; }
};

// The ring of stages. Units are numbered through all walks of the block; a unit is 32 rows.
struct Ring {
    u32 shared;
    __device__ __forceinline__ u32 stage(u32 unit) const { return shared + unit % STAGES * STAGE_BYTES; }
    __device__ __forceinline__ u32 barrier(u32 unit) const {
        return shared + BARRIER_OFFSET + unit % STAGES * 8;
    }
    __device__ __forceinline__ void await_unit(u32 unit) const {
        await(barrier(unit), unit / STAGES & 1);
    }
    // Fills this part's rows of a unit: lane i knows where row i of them comes from.
    __device__ __forceinline__ void fill(u32 unit, int part, const char *source) const {
        const int lane = threadIdx.x & 31;
        const u32 rows = stage(unit) + part * OWNED * PITCH;
#if BULK
        if (lane == 0)
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier(unit)),
                         "r"(OWNED * ROW_BYTES)
                         : "memory");
        __syncwarp();
        // With 8 lanes at work the assembler makes a loop over them, of 67 cycles a row; this takes 50.
#pragma unroll
        for (int row = 0; row < OWNED; ++row) {
            const char *from = (const char *)__shfl_sync(~0u, (i64)source, row);
            asm volatile("{ .reg .pred p; elect.sync _|p, -1;\n"
                         "@p cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3]; }" ::"r"(
                             rows + row * PITCH),
                         "l"(from), "n"(ROW_BYTES), "r"(barrier(unit))
                         : "memory");
        }
#else
#pragma unroll 1
        for (int row = 0; row < OWNED; ++row) {
            const char *from = (const char *)__shfl_sync(~0u, (i64)source, row);
#pragma unroll 1
            for (int at = lane * 16; at < ROW_BYTES; at += 512)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(rows + row * PITCH + at),
                             "l"(from + at)
                             : "memory");
        }
        asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier(unit)) : "memory");
#endif
    }
    // Says that this team has done with a unit; lane 0 learns whether the other one has, too. Every part asks
    // for itself, and fills its own rows of the next unit. The team's barrier has ordered its reads.
    __device__ __forceinline__ u32 release(u32 unit, const Place &at) const {
        u32 before = 0;
        if (at.lane() == 0)
            asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], 1;"
                         : "=r"(before)
                         : "r"(shared + RELEASE_OFFSET + (unit % STAGES * PARTS + at.part()) * 4)
                         : "memory");
        return before;
    }
};

// 64 rows of Q pass through the stages into registers. A warp takes the four groups of 8 rows of its team
// in an order of its own: group d belongs to warp part ^ d, so the first is its own.
__device__ __forceinline__ void load_queries(u32 (&q)[STEPS][2][4], const Problem &p, const Lengths &n,
                                             int request, int first_row, int end_tile, const Ring &ring, u32 unit) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, part = warp % PARTS;
    __syncthreads();
    keep(p, n, request, first_row, end_tile, ring.shared);
    const int team = warp / PARTS, mine = unit + team;
    // Rows behind the last one repeat it; nobody reads what they yield.
    const int at = min(first_row + team * KEYS + part * OWNED + lane % OWNED, n.drafts * p.heads - 1);
    const int token = at / p.heads, head = at - token * p.heads;
    ring.fill(mine, part, p.q + (n.query_start + token) * p.q_token_bytes + head * p.q_head_bytes);
    ring.await_unit(mine);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
        const u32 from = ring.stage(mine) + ((m ^ part >> 1) * 16 + (lane & 15 ^ (part & 1) * 8)) * PITCH + part * 32 + (lane >> 4) * 16;
#pragma unroll
        for (int step = 0; step < STEPS; ++step) load_matrices(q[step][m], from + step * 128);
    }
    // Every warp must have seen every unit's barrier before the next round of it begins.
    ring.await_unit(unit + 1 - team);
    __syncthreads();
}

// This warp's part of the scores of 32 rows and 32 keys, posted to the warps that own the rows. What it
// owns itself stays in `own`. `k` holds the first fragment.
__device__ __forceinline__ void partial_scores(float (&own)[8], const u32 (&q)[STEPS][2][4], u32 (&k)[2][4],
                                               u32 from, const Place &at) {
    u32 letters = at.mail() + at.part() * MAILBOX_BYTES + at.lane() * 16;
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
        float sum[2][2][4] = {};
#pragma unroll
        for (int e = 0; e < 4; ++e) own[e] = own[4 + e];
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step + 1 < STEPS) load_matrices(k[step + 1 & 1], from + (step + 1) * 128);
#pragma unroll
            for (int m = 0; m < 2; ++m) {
                multiply(sum[m][0], q[step][m], k[step & 1][0], k[step & 1][1]);
                multiply(sum[m][1], q[step][m], k[step & 1][2], k[step & 1][3]);
            }
        }
        from += 16 * PITCH;
        if (!half) load_matrices(k[0], from);
        own[4] = sum[0][0][0], own[5] = sum[0][0][1];
        own[6] = sum[0][1][0], own[7] = sum[0][1][1];
#pragma unroll
        for (int d = 1; d < PARTS; ++d) {
            const float(&row)[2][4] = sum[d >> 1];
            const int e = (d & 1) * 2;
            store_four(letters + (d - 1) * LETTER_BYTES, row[0][e], row[0][e + 1], row[1][e], row[1][e + 1]);
        }
        letters += 512;
    }
}

// The whole scores of this warp's 8 rows; value e belongs to key (e / 2) * 8 + e % 2 + 2 * (lane % 4).
__device__ __forceinline__ void whole_scores(float (&score)[8], const Place &at) {
#pragma unroll
    for (int d = 1; d < PARTS; ++d) {
        const u32 from = at.mail() + (at.part() ^ d) * MAILBOX_BYTES + (d - 1) * LETTER_BYTES + at.lane() * 16;
#pragma unroll
        for (int half = 0; half < 2; ++half) add_four(score + half * 4, from + half * 512);
    }
}

// Hides what the draft tokens may not see, and what is behind the last key.
__device__ __forceinline__ void hide(float (&score)[8], u32 shared, int left) {
    const int lane = threadIdx.x & 31;
    int tile;
    const Lengths n = kept_lengths(shared, tile);
    tile -= left;
    const u8 *mask = kept_mask(shared, threadIdx.x >> 2);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
        const int key = tile * KEYS + (lane & 3) * 2 + (e >> 1) * 8 + (e & 1);
        if (key >= n.prefix && (key >= n.prefix + n.drafts || !mask || !mask[key])) score[e] = NEGATIVE_INFINITY;
    }
}

// The running softmax of one row; the four lanes of a row agree on everything but `sum`.
struct Softmax {
    float maximum;
    float sum;
    float factor;

    // Weighs the scores; true if the maximum, and with it the scale of the accumulators, has changed.
    __device__ __forceinline__ bool weigh(float (&score)[8], float scale) {
        float top = score[0];
#pragma unroll
        for (int e = 1; e < 8; ++e) top = fmaxf(top, score[e]);
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2)) * scale;
        const bool grew = top > maximum + SLACK;
        factor = grew ? power_of_two(maximum - top) : 1.0f;
        maximum = grew ? top : maximum;
        const float base = maximum == NEGATIVE_INFINITY ? 0.0f : maximum;
        float add = 0.0f;
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            score[e] = power_of_two(fmaf(score[e], scale, -base));
            add += score[e];
        }
        sum = fmaf(sum, factor, add);
        return grew;
    }

    // Rows of P have 64 bytes; their quarters change places so that ldmatrix meets no bank twice.
    __device__ __forceinline__ void post(const float (&score)[8], const Place &at) const {
        const int lane = at.lane(), row = lane >> 2;
        const u32 to = at.mail() + (at.part() ^ 1) * MAILBOX_BYTES + P_OFFSET + row * 64 + (lane & 3) * 4;
        __syncwarp();
#pragma unroll
        for (int n = 0; n < 4; ++n)
            store_word(to + ((n ^ (row >> 1 & 3)) << 4), pack(score[2 * n], score[2 * n + 1]));
        if ((lane & 3) == 0) store_word(at.team_factors() + (at.part() * OWNED + row) * 4, __float_as_uint(factor));
    }
};

typedef float Sums[2][16][4];

__device__ __forceinline__ void scale_rows(Sums &out, u32 team_factors) {
    const int row = (threadIdx.x & 31) >> 2;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
        const float low = load_float(team_factors + (m * 16 + row) * 4);
        const float high = load_float(team_factors + (m * 16 + 8 + row) * 4);
#pragma unroll
        for (int n = 0; n < 16; ++n) {
            out[m][n][0] *= low, out[m][n][1] *= low;
            out[m][n][2] *= high, out[m][n][3] *= high;
        }
    }
}

__device__ __forceinline__ void add_values(Sums &out, u32 stage, const Place &at) {
    const int lane = at.lane(), row = lane & 7, upper = lane >> 3 & 1, chunk = lane >> 4;
    const u32 p_from = at.mail() + (upper ^ 1) * MAILBOX_BYTES + P_OFFSET + row * 64;
    const u32 v_from = stage + (lane & 15) * PITCH + at.part() * 256 + chunk * 16;
    u32 p[2][2][4], v[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m)
        load_matrices(p[0][m], p_from + m * 2 * MAILBOX_BYTES + ((chunk ^ row >> 1 & 3) << 4));
    load_transposed(v[0], v_from);
#pragma unroll
    for (int now = 0; now < 16; ++now) {
        const int next = now + 1, half = now / 8, pair = now % 8;
        if (next < 16) load_transposed(v[next & 1], v_from + next / 8 * 16 * PITCH + next % 8 * 32);
        if (now == 6)
#pragma unroll
            for (int m = 0; m < 2; ++m)
                load_matrices(p[1][m], p_from + m * 2 * MAILBOX_BYTES + ((2 + chunk ^ row >> 1 & 3) << 4));
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            multiply(out[m][2 * pair], p[half][m], v[now & 1][0], v[now & 1][1]);
            multiply(out[m][2 * pair + 1], p[half][m], v[now & 1][2], v[now & 1][3]);
        }
    }
}

// What a walk leaves: the output itself if it saw all keys, else sums, maxima and accumulators in the
// workspace's slot.
struct Target {
    u32 *out;
    float *partial_out;
    float2 *partial_sums;
    int slot;  // -1: all keys were seen
};

__device__ __forceinline__ void write_result(Sums &sums, const Softmax &softmax, const Target &to,
                                             const Problem &p, int first_row, u32 shared, int team, int part) {
    const int lane = threadIdx.x & 31, row = lane >> 2;
    int end_tile;
    const Lengths n = kept_lengths(shared, end_tile);
    const u32 team_factors = shared + FACTOR_OFFSET + team * 32 * 4;
    float sum = softmax.sum;
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    meet(team);
    if ((lane & 3) == 0) {
        // A row that sees no key at all is zero.
        const float factor = to.slot >= 0 ? 1.0f : sum > 0.0f ? reciprocal(sum) : 0.0f;
        store_word(team_factors + (part * 8 + row) * 4, __float_as_uint(factor));
        if (to.slot >= 0)
            to.partial_sums[to.slot * ROWS + team * 32 + part * 8 + row] = make_float2(softmax.maximum, sum);
    }
    meet(team);
    scale_rows(sums, team_factors);
    const int rows = n.drafts * p.heads - first_row, column = part * 128 + (lane & 3) * 2;
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int at = team * 32 + m * 16 + half * 8 + row;
            if (at >= rows) continue;
            if (to.slot < 0) {
                u32 *out = to.out + (((i64)n.query_start * p.heads + first_row + at) * VALUE_DIM + column) / 2;
#pragma unroll
                for (int c = 0; c < 16; ++c) out[c * 4] = pack(sums[m][c][half * 2], sums[m][c][half * 2 + 1]);
            } else {
                float *out = to.partial_out + ((i64)to.slot * ROWS + at) * VALUE_DIM + column;
#pragma unroll
                for (int c = 0; c < 16; ++c)
                    *(float2 *)(out + c * 8) = make_float2(sums[m][c][half * 2], sums[m][c][half * 2 + 1]);
            }
        }
}

// One request's tiles first_tile to last_tile for 64 rows. Returns the next unit of the ring.
__device__ __forceinline__ u32 walk(const Problem &p, int request, int first_row, int first_tile, int last_tile,
                                    const Ring &ring, u32 unit, const Target &target) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, team = warp / PARTS, part = warp % PARTS;
    const Lengths n = lengths_of(p.sizes, request);
    const int own_key = part * OWNED + lane % OWNED;

    u32 q[STEPS][2][4];
    load_queries(q, p, n, request, first_row, last_tile, ring, unit);
    unit += STAGES;
    if (first_tile + team < last_tile)
        ring.fill(unit + team, part, key_address(p, key_slot(p, n, (first_tile + team) * KEYS + own_key)));
    int ahead = 0;
    u32 before = 0;
    // How many tiles are left; and, in the last two bits, in how many of the last ones something is hidden.
    int left = last_tile - first_tile << 2 | max(last_tile - n.prefix / KEYS, 0);

    Sums sums = {};
    Softmax softmax = {NEGATIVE_INFINITY, 0.0f, 1.0f};
#pragma unroll 1
    for (; left > 3; left -= 4, ++unit) {
        const Place at = {ring.shared, thread_now()};
        const u32 keys = ring.stage(unit) + ((at.lane() >> 4) * 8 + (at.lane() & 7)) * PITCH + at.part() * 32 +
                         (at.lane() >> 3 & 1) * 16;
        float score[8] = {};
        u32 k[2][4];
        ring.await_unit(unit);
        load_matrices(k[0], keys);
        if (left > 7 && __shfl_sync(~0u, before, 0) & 1) ring.fill(unit + 1, at.part(), key_address(p, ahead));
        partial_scores(score, q, k, keys, at);
        const Place then = {ring.shared, thread_now()};
        meet(then.team());
        whole_scores(score, then);
        if (left >> 2 <= (left & 3)) hide(score, ring.shared, left >> 2);
        const bool grew = softmax.weigh(score, p.scale);
        softmax.post(score, then);
        if (meet_any(then.team(), grew)) scale_rows(sums, then.team_factors());
        const Place last = {ring.shared, thread_now()};
        int tile;
        const Lengths kept = kept_lengths(ring.shared, tile);
        ahead = key_slot(p, kept, (tile - (left >> 2) + STAGES) * KEYS + last.own_key());
        add_values(sums, ring.stage(unit), last);
        // From here on the stage may be filled again, and the letters of the next tile may overwrite P.
        meet(last.team());
        before = ring.release(unit, last);
    }
    write_result(sums, softmax, target, p, first_row, ring.shared, team, part);
    return unit;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
verify_attention(const char *q, const char *draft_keys, const char *pool, u32 *out, const void *kv_indptr,
                 const void *qo_indptr, const void *kv_indices, const u8 *mask, const i64 *mask_indptr,
                 float *partial_out, float2 *partial_sums, int requests, int wide, int heads, int row_blocks,
                 int groups, int least_tiles, float scale, i64 q_token_bytes, i64 q_head_bytes,
                 i64 draft_bytes, i64 pool_bytes) {
    extern __shared__ __align__(128) u8 shared_memory[];
    const Ring ring = {(u32)__cvta_generic_to_shared(shared_memory)};
    const Problem p = {{kv_indptr, qo_indptr, requests, wide}, q, draft_keys, pool, kv_indices, mask,
                       mask_indptr, heads, scale, q_token_bytes, q_head_bytes, draft_bytes, pool_bytes};

    const int group = blockIdx.x / row_blocks;
    const int first_row = (blockIdx.x - group * row_blocks) * ROWS;
    const int total = total_tiles(p.sizes);
    const int chunk = chunk_of(total, groups, least_tiles);
    int at = group * chunk;
    const int end = min(at + chunk, total);
    if (at >= end) return;
    if (threadIdx.x < STAGES) {
        make_barrier(ring.barrier(threadIdx.x));
        show_barriers();
    }
    if (threadIdx.x < STAGES * PARTS) store_word(ring.shared + RELEASE_OFFSET + threadIdx.x * 4, 0);
    int request, request_begin;
    find_request(p.sizes, at, request, request_begin);

#pragma unroll 1
    for (u32 unit = 0; at < end; ++request) {
        const Lengths n = lengths_of(p.sizes, request);
        const int tiles = tiles_of(n);
        const int first_tile = at - request_begin, last_tile = min(tiles, end - request_begin);
        at = request_begin += tiles;
        if (first_row >= n.drafts * heads || first_tile >= last_tile) continue;
        const bool whole = first_tile == 0 && last_tile == tiles;
        const Target target = {out, partial_out, partial_sums, whole ? -1 : (int)blockIdx.x * 2 + (first_tile == 0)};
        unit = walk(p, request, first_row, first_tile, last_tile, ring, unit, target);
    }
}

constexpr int MERGE_PARTS = 4;
constexpr int MERGE_THREADS = MERGE_PARTS * VALUE_DIM / 4;
constexpr int MOST_GROUPS = 1024;
static_assert(MERGE_THREADS == LAUNCH_MERGE_THREADS);

// Joins the partial results of the requests that were cut. A block has one row of one request; grid:
// (requests or cuts, row blocks, rows of a block).
extern "C" __global__ void __launch_bounds__(MERGE_THREADS)
merge_partials(const float *partial_out, const float2 *partial_sums, u32 *out, const void *kv_indptr,
               const void *qo_indptr, int requests, int wide, int heads, int groups, int least_tiles,
               int by_cut) {
    __shared__ float weights[MOST_GROUPS];
    __shared__ float4 joined[MERGE_PARTS][VALUE_DIM / 4];
    const Sizes sizes = {kv_indptr, qo_indptr, requests, wide};
    const int row_blocks = gridDim.y, row_block = blockIdx.y, row = blockIdx.z;
    const int total = total_tiles(sizes), chunk = chunk_of(total, groups, least_tiles);

    // By cut: the block looks after the request at its cut, if no earlier cut is in that request.
    int request = blockIdx.x, begin = 0;
    if (by_cut) {
        const int cut = (blockIdx.x + 1) * chunk;
        if (cut >= total) return;
        find_request(sizes, cut, request, begin);
        if (begin == cut || cut - chunk > begin) return;
    } else {
        for (int before = threadIdx.x & 31; before < request; before += 32)
            begin += tiles_of(lengths_of(sizes, before));
        for (int offset = 16; offset; offset >>= 1) begin += __shfl_xor_sync(~0u, begin, offset);
    }
    const Lengths n = lengths_of(sizes, request);
    const int tiles = tiles_of(n);
    const int first = begin / chunk, last = (begin + tiles - 1) / chunk;
    if (tiles == 0 || first == last || row_block * ROWS + row >= n.drafts * heads) return;

    const int parts = last - first + 1;
    const int lane = threadIdx.x & 31;
    float top = NEGATIVE_INFINITY;
    for (int i = lane; i < parts; i += 32) {
        const int slot = ((first + i) * row_blocks + row_block) * 2 + (i == 0);
        top = fmaxf(top, partial_sums[slot * ROWS + row].x);
    }
    for (int offset = 16; offset; offset >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
    float sum = 0.0f;
    for (int i = lane; i < parts; i += 32) {
        const int slot = ((first + i) * row_blocks + row_block) * 2 + (i == 0);
        const float2 one = partial_sums[slot * ROWS + row];
        const float weight = top == NEGATIVE_INFINITY ? 0.0f : power_of_two(one.x - top);
        sum = fmaf(one.y, weight, sum);
        if (threadIdx.x < 32) weights[i] = weight;
    }
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(~0u, sum, offset);
    __syncthreads();

    const int part = threadIdx.x / (VALUE_DIM / 4), column = threadIdx.x % (VALUE_DIM / 4);
    float4 all = make_float4(0, 0, 0, 0);
#pragma unroll 4
    for (int i = part; i < parts; i += MERGE_PARTS) {
        const int slot = ((first + i) * row_blocks + row_block) * 2 + (i == 0);
        const float4 one = *((const float4 *)(partial_out + ((i64)slot * ROWS + row) * VALUE_DIM) + column);
        const float weight = weights[i];
        all.x = fmaf(one.x, weight, all.x), all.y = fmaf(one.y, weight, all.y);
        all.z = fmaf(one.z, weight, all.z), all.w = fmaf(one.w, weight, all.w);
    }
    joined[part][column] = all;
    __syncthreads();
    if (part) return;
#pragma unroll
    for (int i = 1; i < MERGE_PARTS; ++i) {
        const float4 one = joined[i][column];
        all.x += one.x, all.y += one.y, all.z += one.z, all.w += one.w;
    }
    const float factor = sum > 0.0f ? reciprocal(sum) : 0.0f;
    const i64 out_row = (i64)n.query_start * heads + row_block * ROWS + row;
    *(uint2 *)(out + (out_row * VALUE_DIM + column * 4) / 2) =
        make_uint2(pack(all.x * factor, all.y * factor), pack(all.z * factor, all.w * factor));
}
