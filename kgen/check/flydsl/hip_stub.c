/* A HIP runtime without a GPU: what FlyDSL's host launchers need of libamdhip64, on the memory of this process.
 *
 * Device memory is host memory, streams run in order at once, and a kernel launch is handed to a callback, which
 * returns when the kernel is done. Compiled at first use by kgen/check/flydsl/stand_ins.py.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef int hipError_t;
enum { hipSuccess = 0, hipErrorInvalidValue = 1, hipErrorOutOfMemory = 2, hipErrorLaunchFailure = 719 };

enum { KERNEL_NAME_BYTES = 512, ALLOCATION_ALIGNMENT = 256 };

struct module {
    const void *image; /* an ELF code object; FlyDSL keeps it alive as long as the module */
    size_t bytes;
};

struct function {
    const struct module *module;
    char name[KERNEL_NAME_BYTES];
};

/* One launch. `arguments` points to a pointer for each kernel argument; their sizes are in the code object. */
struct launch {
    const void *image;
    size_t image_bytes;
    const char *kernel;
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t dynamic_lds_bytes;
    void **arguments;
};

typedef int (*launch_callback)(const struct launch *);

static launch_callback on_launch;

EXPORT void kgen_hip_on_launch(launch_callback callback) { on_launch = callback; }

/* The section headers are the last part of an ELF file that a linker wrote. */
static size_t elf_bytes(const unsigned char *elf) {
    uint64_t section_headers;
    uint16_t header_bytes, headers;
    memcpy(&section_headers, elf + 0x28, sizeof section_headers);
    memcpy(&header_bytes, elf + 0x3a, sizeof header_bytes);
    memcpy(&headers, elf + 0x3c, sizeof headers);
    return section_headers + (size_t)header_bytes * headers;
}

/* Modules and kernels. */

EXPORT hipError_t hipModuleLoadData(void **result, const void *image) {
    struct module *module = malloc(sizeof *module);
    if (module == NULL) return hipErrorOutOfMemory;
    *module = (struct module){image, elf_bytes(image)};
    *result = module;
    return hipSuccess;
}

EXPORT hipError_t hipModuleUnload(void *module) {
    free(module);
    return hipSuccess;
}

EXPORT hipError_t hipModuleGetFunction(void **result, void *module, const char *name) {
    if (strlen(name) >= KERNEL_NAME_BYTES) return hipErrorInvalidValue;
    struct function *function = malloc(sizeof *function); /* HIP has no call that frees one */
    if (function == NULL) return hipErrorOutOfMemory;
    function->module = module;
    strcpy(function->name, name);
    *result = function;
    return hipSuccess;
}

EXPORT hipError_t hipModuleLaunchKernel(void *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_lds,
                                        void *stream, void **arguments, void **extra) {
    const struct function *function = kernel;
    (void)stream;
    if (on_launch == NULL || extra != NULL) {
        fprintf(stderr, "error: the HIP stub cannot launch %s: %s\n", function->name,
                on_launch == NULL ? "nothing executes kernels here" : "arguments in one buffer are not supported");
        return hipErrorLaunchFailure;
    }
    struct launch launch = {function->module->image, function->module->bytes,     function->name,
                            {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_lds, arguments};
    return on_launch(&launch) == 0 ? hipSuccess : hipErrorLaunchFailure;
}

EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *kernel, int block_size,
                                                                     size_t dynamic_lds) {
    (void)kernel, (void)block_size, (void)dynamic_lds;
    *blocks = 1;
    return hipSuccess;
}

/* Devices: there is one. */

EXPORT hipError_t hipGetDevice(int *device) {
    *device = 0;
    return hipSuccess;
}

EXPORT hipError_t hipSetDevice(int device) { return device == 0 ? hipSuccess : hipErrorInvalidValue; }

EXPORT hipError_t hipGetDeviceCount(int *count) {
    *count = 1;
    return hipSuccess;
}

EXPORT hipError_t hipDeviceSynchronize(void) { return hipSuccess; }

EXPORT hipError_t hipGetLastError(void) { return hipSuccess; }

EXPORT const char *hipGetErrorName(hipError_t error) {
    return error == hipErrorLaunchFailure ? "hipErrorLaunchFailure" : "an error of the HIP stub";
}

/* Streams and events: everything is done when the call that starts it returns, so one handle serves for all. */

static char handle;

static hipError_t any_handle(void **result) {
    *result = &handle;
    return hipSuccess;
}

EXPORT hipError_t hipStreamCreate(void **stream) { return any_handle(stream); }
EXPORT hipError_t hipEventCreateWithFlags(void **event, unsigned flags) { return (void)flags, any_handle(event); }
EXPORT hipError_t hipStreamDestroy(void *stream) { return (void)stream, hipSuccess; }
EXPORT hipError_t hipStreamSynchronize(void *stream) { return (void)stream, hipSuccess; }
EXPORT hipError_t hipEventDestroy(void *event) { return (void)event, hipSuccess; }
EXPORT hipError_t hipEventSynchronize(void *event) { return (void)event, hipSuccess; }
EXPORT hipError_t hipEventRecord(void *event, void *stream) { return (void)event, (void)stream, hipSuccess; }
EXPORT hipError_t hipStreamWaitEvent(void *stream, void *event, unsigned flags) {
    return (void)stream, (void)event, (void)flags, hipSuccess;
}

/* Memory. */

EXPORT hipError_t hipMalloc(void **result, size_t bytes) {
    size_t rounded = (bytes + ALLOCATION_ALIGNMENT - 1) / ALLOCATION_ALIGNMENT * ALLOCATION_ALIGNMENT;
    *result = aligned_alloc(ALLOCATION_ALIGNMENT, rounded);
    return *result == NULL && rounded != 0 ? hipErrorOutOfMemory : hipSuccess;
}

EXPORT hipError_t hipFree(void *memory) {
    free(memory);
    return hipSuccess;
}

EXPORT hipError_t hipMemcpy(void *to, const void *from, size_t bytes, int kind) {
    (void)kind;
    memmove(to, from, bytes);
    return hipSuccess;
}

EXPORT hipError_t hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    (void)stream;
    return hipMemcpy(to, from, bytes, kind);
}

EXPORT hipError_t hipMemset(void *memory, int value, size_t bytes) {
    memset(memory, value, bytes);
    return hipSuccess;
}

EXPORT hipError_t hipMemsetD16Async(void *memory, unsigned short value, size_t count, void *stream) {
    (void)stream;
    for (size_t i = 0; i < count; i++) ((uint16_t *)memory)[i] = value;
    return hipSuccess;
}

EXPORT hipError_t hipMemsetD32Async(void *memory, int value, size_t count, void *stream) {
    (void)stream;
    for (size_t i = 0; i < count; i++) ((int32_t *)memory)[i] = value;
    return hipSuccess;
}

EXPORT hipError_t hipHostRegister(void *memory, size_t bytes, unsigned flags) {
    return (void)memory, (void)bytes, (void)flags, hipSuccess;
}

EXPORT hipError_t hipHostUnregister(void *memory) { return (void)memory, hipSuccess; }

EXPORT hipError_t hipHostGetDevicePointer(void **device, void *host, unsigned flags) {
    (void)flags;
    *device = host;
    return hipSuccess;
}
