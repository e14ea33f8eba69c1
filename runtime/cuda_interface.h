/* The C interface of libisthmus_cuda.so, which the program loads at run time, so that one program
 * works with and without a driver. No C++ type crosses it.
 *
 * Functions that can fail return null, or a message that stays valid until the next call on the
 * same thread. Calls on one device come from one thread. */
#ifndef ISTHMUS_RUNTIME_CUDA_INTERFACE_H
#define ISTHMUS_RUNTIME_CUDA_INTERFACE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised by every change of this interface. */
#define ISTHMUS_CUDA_INTERFACE_VERSION 5

typedef struct IsthmusCudaDevice IsthmusCudaDevice;
typedef struct IsthmusCudaKernel IsthmusCudaKernel;
typedef struct IsthmusCudaRecording IsthmusCudaRecording;
typedef struct IsthmusCudaChannel IsthmusCudaChannel;

typedef struct {
  int32_t dtype; /* as in ir/type.h: f32 f64 bf16 f16 i32 i64 u8 bool */
  int32_t rank;
  const int64_t *dims;
} IsthmusType;

/* Kinds as in ir/attr.h: bool (one byte), int (int64), float (double), string (bytes), int list,
 * float list. `count` is 1 for numbers. */
typedef struct {
  const char *name;
  int32_t kind;
  int64_t count;
  const void *data;
} IsthmusAttr;

typedef struct {
  const char *op;
  int64_t numAttrs, numOperands, numResults;
  const IsthmusAttr *attrs;
  const IsthmusType *operands, *results;
} IsthmusCall;

typedef struct {
  char name[256];   /* "NVIDIA H200" */
  char target[256]; /* determines kernels and workspaces: "cuda sm_90 cudnn=9.13 ..." */
  double flopsPerSecond, bytesPerSecond;
  double linkBytesPerSecond; /* to the host's memory, each way */
  /* For convolutions and matrix products, by dtype of the operands; 0: as flopsPerSecond. */
  double contractionFlopsPerSecond[8];
  int32_t records; /* whether steps can be recorded */
} IsthmusCudaInfo;

typedef struct {
  int64_t workspaceBytes;
  const char *library;  /* "cudnn", "cublasLt", "cuda" */
  int32_t isSubstitute; /* whether it is a slow kernel that replaces a library's */
} IsthmusCudaKernelInfo;

typedef struct {
  int32_t tf32; /* whether f32 products may round their operands to tf32 */
} IsthmusCudaOptions;

typedef struct {
  uint32_t version;
  const char *description; /* toolkit and architectures, for people */
  /* The paths of NVIDIA's libraries, one per line, or the paths searched for a missing one. */
  const char *(*libraries)(void);

  const char *(*countDevices)(int32_t *count);
  const char *(*open)(int32_t index, const IsthmusCudaOptions *, IsthmusCudaDevice **);
  void (*close)(IsthmusCudaDevice *);
  void (*describe)(IsthmusCudaDevice *, IsthmusCudaInfo *);

  const char *(*memory)(IsthmusCudaDevice *, int64_t *freeBytes, int64_t *totalBytes);
  const char *(*allocate)(IsthmusCudaDevice *, int64_t bytes, void **address);
  void (*release)(IsthmusCudaDevice *, void *address);
  const char *(*write)(IsthmusCudaDevice *, void *to, const void *from, int64_t bytes);
  const char *(*read)(IsthmusCudaDevice *, void *to, const void *from, int64_t bytes);

  /* The device owns the kernel. Its description may change at the first launch, except for the
   * workspace. */
  const char *(*prepare)(IsthmusCudaDevice *, const IsthmusCall *, IsthmusCudaKernel **);
  void (*describeKernel)(const IsthmusCudaKernel *, IsthmusCudaKernelInfo *);
  const char *(*begin)(IsthmusCudaDevice *, uint64_t seed, uint64_t step);
  const char *(*launch)(IsthmusCudaDevice *, IsthmusCudaKernel *, const void *const *operands,
                        int64_t numOperands, void *const *results, int64_t numResults,
                        void *workspace);
  const char *(*finish)(IsthmusCudaDevice *);

  /* Transfers to host memory and back, in parallel with launches, as in runtime/device.h. */
  const char *(*allocateOnHost)(IsthmusCudaDevice *, int64_t bytes, void **address);
  void (*releaseOnHost)(IsthmusCudaDevice *, void *address);
  const char *(*startTransfer)(IsthmusCudaDevice *, uint32_t id, int32_t toHost, void *to,
                               const void *from, int64_t bytes);
  const char *(*waitForTransfer)(IsthmusCudaDevice *, uint32_t id);

  /* Remarks for users on kernels and libraries, each returned once; null when none is left. */
  const char *(*takeNote)(IsthmusCudaDevice *);

  /* Kernels launched between start and end are recorded, and run at each replay. After a failure of
   * one of these the device continues as before the recording. */
  const char *(*startRecording)(IsthmusCudaDevice *);
  const char *(*endRecording)(IsthmusCudaDevice *, IsthmusCudaRecording **);
  const char *(*replay)(IsthmusCudaDevice *, IsthmusCudaRecording *);
  void (*dropRecording)(IsthmusCudaRecording *);

  /* A channel to another GPU, or from it, as in runtime/channel.h; null without NCCL. The text of
   * channelId stays valid until the next call on the same thread. */
  const char *(*newChannel)(IsthmusCudaDevice *, int32_t sends, IsthmusCudaChannel **);
  const char *(*channelId)(IsthmusCudaChannel *, const char **id);
  const char *(*openChannel)(IsthmusCudaChannel *, const char *id, int32_t *canOpen);
  const char *(*channelIsOpen)(IsthmusCudaChannel *, int32_t *isOpen);
  const char *(*postMessage)(IsthmusCudaChannel *, uint64_t message);
  const char *(*startMessage)(IsthmusCudaChannel *, uint64_t message, void *data, int64_t bytes);
  const char *(*messageIsDone)(IsthmusCudaChannel *, uint64_t message, int32_t *isDone);
  void (*closeChannel)(IsthmusCudaChannel *);
} IsthmusCudaInterface;

/* The one symbol of the library: its interface, of any version; never null. */
const IsthmusCudaInterface *isthmus_cuda_interface(void);

#ifdef __cplusplus
}
#endif

#endif
