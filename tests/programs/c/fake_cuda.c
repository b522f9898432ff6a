/* Stands for libcuda.so.1 and libnvidia-ml.so.1 where there is no GPU: what a driver says of a card.
 * What it says is given when it is compiled; -DCRASH ends the process, as a broken driver does. */

#include <string.h>

#ifndef STATUS
#define STATUS 0
#endif
#ifndef COMPUTE_MODE
#define COMPUTE_MODE 0
#endif
#ifndef FREE_MIB
#define FREE_MIB 100000ull
#endif
#ifndef PROCESSES
#define PROCESSES 0
#endif
#ifndef CARDS
#define CARDS 1
#endif
#ifndef MINOR
#define MINOR 0
#endif

int cuInit(unsigned flags) {
#ifdef CRASH
    *(volatile int *)0 = flags;
#endif
    return STATUS;
}

int cuGetErrorName(int status, const char **name) {
    *name = status == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
    return 0;
}

int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuDeviceGetCount(int *count) { return *count = CARDS, 0; }
int cuDeviceGet(int *device, int index) { return *device = index, 0; }
int cuDeviceGetName(char *name, int size, int device) { return strncpy(name, "Fake GPU", size), 0; }
int cuDeviceGetUuid_v2(char *uuid, int device) { return memset(uuid, 0x10 + device, 16), 0; }

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 75: return *value = 9, 0;
    case 76: return *value = MINOR, 0;
    case 16: return *value = 132, 0;
    case 97: return *value = 232448, 0;
    case 82: return *value = 65536, 0;
    case 20: return *value = COMPUTE_MODE, 0;
    }
    return 1;
}

int nvmlInit_v2(void) { return 0; }

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    *device = (void *)1;
    return strncmp(uuid, "GPU-1", 5) ? 2 : 0;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
    memory[0] = 143771ull << 20;
    memory[1] = FREE_MIB << 20;
    memory[2] = memory[0] - memory[1];
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *processes) {
    return *count = PROCESSES, 0;
}
