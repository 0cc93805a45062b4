// Host side of the copy engine: tensor maps, made by the driver without linking to it.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace ladder {

// A row-major matrix and the tile that one order copies.
struct TiledMatrix {
    CUtensorMapDataType type;
    int element_bytes;
    const void *first;
    int64_t rows, columns;  // columns are contiguous
    int tile_rows, tile_columns;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
};

// cudaErrorNotSupported when the driver has no tensor maps, or the device is not of compute capability 9.0: code for
// sm_90a runs on no other.
inline cudaError_t require_hopper() {
    int device = 0, major = 0, minor = 0;
    if (const cudaError_t error = cudaGetDevice(&device)) return error;
    if (const cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device))
        return error;
    if (const cudaError_t error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device))
        return error;
    return major == 9 && minor == 0 ? cudaSuccess : cudaErrorNotSupported;
}

using EncodeTiled = CUresult (*)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                                 const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                                 CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// The driver's cuTensorMapEncodeTiled, as CUDA 12.0 defined it; nullptr when the driver has none.
inline EncodeTiled encode_tiled() {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
#else
    const cudaError_t error = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result);
#endif
    if (error != cudaSuccess) cudaGetLastError();  // so that nobody finds it later
    return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<EncodeTiled>(found)
                                                                         : nullptr;
}

// Makes a map. cudaErrorInvalidValue: what the engine cannot take, such as rows that are no multiple of 16 bytes.
inline cudaError_t make_map(CUtensorMap *map, const TiledMatrix &matrix) {
    if (matrix.rows > INT32_MAX || matrix.columns > INT32_MAX) return cudaErrorInvalidValue;  // 32-bit coordinates
    const EncodeTiled encode = encode_tiled();
    if (encode == nullptr) return cudaErrorNotSupported;
    const cuuint64_t extents[2] = {static_cast<cuuint64_t>(matrix.columns), static_cast<cuuint64_t>(matrix.rows)};
    const cuuint64_t pitch[1] = {extents[0] * static_cast<cuuint64_t>(matrix.element_bytes)};
    const cuuint32_t tile[2] = {static_cast<cuuint32_t>(matrix.tile_columns),
                                static_cast<cuuint32_t>(matrix.tile_rows)};
    const cuuint32_t steps[2] = {1, 1};
    const CUresult result =
        encode(map, matrix.type, 2, const_cast<void *>(matrix.first), extents, pitch, tile, steps,
               CU_TENSOR_MAP_INTERLEAVE_NONE, matrix.swizzle, matrix.promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace ladder
