/* A library for LD_PRELOAD without a C library: its constructor runs before libc's and waits there.
 *
 * It reports "ready" on stdout and goes on when stdin gives a byte or ends.
 */
static long call3(long number, long a, const void *b, long c)
{
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

__attribute__((constructor)) static void wait_here(void)
{
    char byte;
    call3(1, 1, "ready\n", 6);
    call3(0, 0, &byte, 1);
}
