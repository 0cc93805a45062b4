// Mean filter 6, two scans: column sums without a subtraction, from rows that cp.async brought into shared memory ahead.
//
// Changed against running sums:
// - Every row is read once. It comes by cp.async into a ring in shared memory, up to 8 rows before it is needed, and
//   stays there while windows hold it: nothing is read a second time from L2, and loads cost no registers.
// - Nothing is taken away from a sum (van Herk, 1992, and Gil and Werman, 1993, do this for the maximum, which has no
//   inverse). Cut a column into groups of 2R+1 rows. A window that is no group ends one group and begins the next: its
//   sum is the sum from its first row to the end of that group, plus the sum from the beginning of the next group to its
//   last row. The former are found by one scan up the group once it is there (in place, in the ring), the latter is a
//   running sum that only grows and is dropped at the end of the group. 3 additions a pixel for any radius.
//   So no error stays longer than a group, a NaN or an infinity is only in windows that have it, a huge value leaves no
//   trace, and strips can be as long as one likes: no restart, no repair.
// - As many blocks as the chip holds at a time, with strips as tall as that needs, so that the 2R rows of halo above are
//   paid once for some hundred rows.
//
// A thread reads and writes only its own quads of the ring, so that the ring needs no barrier; the exchange along the row
// (quads.cuh) has one a row.
//
// Tile arithmetic: 128 threads, 512 columns, of which 504 (R = 1, 3), 496 (7) or 480 (15) are written. Ring: 2R+1 rows
// and those ahead, 2 KiB each: 11 (R = 1), 15 (3), 23 (7), 34 rows (15), 68 KiB; 5 KiB for the exchange. 8, 6, 4 and 3
// blocks an SM. In shared memory a pixel costs, in words and without the halo: 1 written by cp.async, 2 read and 1
// written by the scans, 1 read and 1.25 written and 2 to 3.5 read by the exchange: at most 10, where the SM has 32 a
// cycle and the DRAM lets it have 2 pixels in that time.
#include "async_copy.cuh"
#include "mean_filter.h"
#include "quads.cuh"
#include "strips.cuh"

// Blocks, as a multiple of what the chip holds at a time.
#ifndef WAVES
#define WAVES 1
#endif

namespace {

constexpr int kThreads = 128;
// Rows of the ring that one chunk of the scan holds in registers.
constexpr int kChunk = 8;
constexpr int kTallest = 1 << 20;

// Rows ahead of the newest that is needed: as many as leave room for another block where the ring is large.
template <int R>
__host__ __device__ constexpr int rows_ahead() {
    return R < 15 ? 8 : 3;
}

template <int R>
__host__ __device__ constexpr int ring_rows() {
    return 2 * R + 1 + rows_ahead<R>();
}

template <int R>
__host__ __device__ constexpr size_t shared_bytes() {
    return kThreads * (sizeof(float4) * (ring_rows<R>() + 2) + sizeof(float) * 2);
}

template <bool kWhole>
__device__ __forceinline__ void fetch(uint32_t to, const float *from, const float *any, const filter::Quad &quad,
                                      bool exists) {
    if constexpr (kWhole) {
        const bool valid = exists && quad.has(0);
        ladder::copy_async_or_zero<16>(to, valid ? from : any, valid);
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const bool valid = exists && quad.has(e);
            ladder::copy_async_or_zero<4>(to + 4 * e, valid ? from + e : any, valid);
        }
    }
    ladder::commit_copies();
}

// Replaces the rows of a group, which ends at ring row `last`, by the sums from each to the end of the group.
template <int R>
__device__ __forceinline__ void scan_up(float4 *own, int last) {
    constexpr int kWindow = 2 * R + 1, kSlots = ring_rows<R>();
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    int slot = last;
#pragma unroll
    for (int done = 0; done < kWindow; done += kChunk) {
        constexpr int kMost = kWindow < kChunk ? kWindow : kChunk;
        float4 rows[kMost];
        int at[kMost];
#pragma unroll
        for (int i = 0; i < kMost; ++i) {
            if (done + i < kWindow) {
                at[i] = slot;
                rows[i] = own[slot * kThreads];
                slot = slot == 0 ? kSlots - 1 : slot - 1;
            }
        }
#pragma unroll
        for (int i = 0; i < kMost; ++i) {
            if (done + i < kWindow) {
                sum = filter::plus(sum, rows[i]);
                own[at[i] * kThreads] = sum;
            }
        }
    }
}

template <int R, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    mean(const float *__restrict__ x, float *__restrict__ y, int64_t H, int64_t W, filter::Strips strips) {
    extern __shared__ float4 ring[];
    constexpr int kWindow = 2 * R + 1, kSlots = ring_rows<R>(), kHalo = filter::halo_quads<R>();
    float4 *columns = ring + kSlots * kThreads;                        // [2][kThreads]
    float *quads = reinterpret_cast<float *>(columns + 2 * kThreads);  // [2][kThreads]
    const int t = threadIdx.x;
    const filter::Quad quad{blockIdx.x % strips.across * strips.width + 4 * (t - kHalo), W};
    const int64_t top = blockIdx.x / strips.across * strips.height;
    const int rows = static_cast<int>(min(int64_t(strips.height), H - top));
    const bool writes = t >= kHalo && t < kHalo + strips.width / 4;
    float4 *own = ring + t;
    const uint32_t own_address = ladder::shared_address(own);

    // Input row k of the strip is row top - R + k of the image and lies in slot k % kSlots. Rows above and below the
    // image, and those that no window of the strip needs, are not read.
    const float *next = x + (top - R) * W + quad.column;
    const int first_row = static_cast<int>(top < R ? R - top : 0);
    const int last_row = static_cast<int>(min(int64_t(rows) + 2 * R, H - top + R));
    int fetched = 0;
#pragma unroll 1
    for (; fetched < kSlots - 1; ++fetched, next += W)
        fetch<kWhole>(own_address + fetched * kThreads * 16, next, x, quad, fetched >= first_row && fetched < last_row);

    const float4 across = quad.weights(R);
    float4 weights = across, grows = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float *to = y + top * W;
    const int whole_above = first_row;        // from here on the window has all rows above
    const int64_t whole_below = H - R - top;  // from here on rows below are missing
    int slot = 0, newest = kWindow - 1, free_slot = kSlots - 1, place = 0;  // place: row within its group
#pragma unroll 1
    for (int row = 0; row < rows; ++row, to += W) {
        fetch<kWhole>(own_address + free_slot * kThreads * 16, next, x, quad,
                      fetched >= first_row && fetched < last_row);
        ++fetched;
        next += W;
        ladder::wait_copies<rows_ahead<R>()>();  // the newest row of this window is there
        if (place == 0) {
            scan_up<R>(own, newest);
            grows = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        } else {
            grows = filter::plus(grows, own[newest * kThreads]);
        }
        const float4 sum = filter::plus(own[slot * kThreads], grows);
        float4 *line = columns + (row & 1) * kThreads;
        float *quad_line = quads + (row & 1) * kThreads;
        line[t] = sum;
        quad_line[t] = filter::quad_sum(sum);
        __syncthreads();
        if (row <= whole_above || row >= whole_below) {
            const float down = 1.0f / static_cast<float>(filter::places_inside(top + row, R, H));
            weights = make_float4(across.x * down, across.y * down, across.z * down, across.w * down);
        }
        if (writes) {
            const float4 sums = filter::window_sums<R>(line, quad_line, t, sum);
            quad.store<kWhole>(
                to, make_float4(sums.x * weights.x, sums.y * weights.y, sums.z * weights.z, sums.w * weights.w));
        }
        free_slot = slot;  // its sum is used up
        slot = slot == kSlots - 1 ? 0 : slot + 1;
        newest = newest == kSlots - 1 ? 0 : newest + 1;
        place = place == kWindow - 1 ? 0 : place + 1;
    }
}

template <int R, bool kWhole>
cudaError_t plan_strips(const Args *args, filter::Strips *strips) {
    constexpr int kMost = 4 * (kThreads - 2 * filter::halo_quads<R>());
    int device = 0, multiprocessors = 0, resident = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    if (status == cudaSuccess)
        status = cudaFuncSetAttribute(mean<R, kWhole>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared_bytes<R>()));
    // L1 has nothing to keep here: all of its memory is for the rings.
    if (status == cudaSuccess)
        status = cudaFuncSetAttribute(mean<R, kWhole>, cudaFuncAttributePreferredSharedMemoryCarveout,
                                      cudaSharedmemCarveoutMaxShared);
    if (status == cudaSuccess)
        status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, mean<R, kWhole>, kThreads, shared_bytes<R>());
    if (status != cudaSuccess) return status;
    *strips =
        filter::strips_of(args->H, args->W, kMost, int64_t(WAVES) * resident * multiprocessors, 2 * R + 1, kTallest);
    return strips->blocks > INT32_MAX ? cudaErrorInvalidValue : cudaSuccess;
}

// Calls f<R, kWhole>() for the problem's radius and alignment.
template <class F>
cudaError_t with_radius(const Args *args, F f) {
    const bool whole = filter::whole_quads(args->x, args->y, args->W);
    switch (args->R) {
        case 1:
            return whole ? f.template operator()<1, true>() : f.template operator()<1, false>();
        case 3:
            return whole ? f.template operator()<3, true>() : f.template operator()<3, false>();
        case 7:
            return whole ? f.template operator()<7, true>() : f.template operator()<7, false>();
        case 15:
            return whole ? f.template operator()<15, true>() : f.template operator()<15, false>();
        default:
            return cudaErrorInvalidValue;
    }
}

struct Planning {
    const Args *args;
    filter::Strips *strips;
    template <int R, bool kWhole>
    cudaError_t operator()() const {
        return plan_strips<R, kWhole>(args, strips);
    }
};

struct Launching {
    const Args *args;
    filter::Strips strips;
    cudaStream_t stream;
    template <int R, bool kWhole>
    cudaError_t operator()() const {
        mean<R, kWhole><<<static_cast<unsigned>(strips.blocks), kThreads, shared_bytes<R>(), stream>>>(
            args->x, args->y, args->H, args->W, strips);
        return cudaGetLastError();
    }
};

}  // namespace

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    filter::Strips strips;
    const cudaError_t status = with_radius(args, Planning{args, &strips});
    if (status == cudaSuccess) *plan = new filter::Strips(strips);
    return status;
}

extern "C" cudaError_t launch(const Args *args, void *plan, cudaStream_t stream) {
    return with_radius(args, Launching{args, *static_cast<const filter::Strips *>(plan), stream});
}

extern "C" void destroy(void *plan) { delete static_cast<filter::Strips *>(plan); }
