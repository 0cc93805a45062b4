"""The table of the metrics that Nsight Compute measures: ours by name, theirs as the source.

A ``source`` is one or more formulas, the preferred one first: names, numbers, ``* / + -`` between blanks, without
brackets. A name is one of ours or ncu's; names differ between chips and versions, so a report or a chip is served by
the first formula whose names it has. Everything here is data; ``profiler.metrics`` gives it meaning.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """One quantity of the report: its name, SI unit, group, where it comes from, and one sentence of meaning."""

    name: str
    unit: str  #: SI, or ``%``, ``inst``, ``cycle``, ``1`` for a ratio, ``text``
    group: str
    meaning: str
    source: tuple[str, ...]
    origin: str = "ncu"
    asked: bool = True  #: whether our own runs ask for it; if not, it has a row only where a report holds it
    zero: str = ""  #: why there is no value when the profiler says 0, where 0 cannot be: a word of ``why``

    @property
    def formula(self) -> str:
        """The preferred formula."""
        return self.source[0] if self.source else ""


#: A touched sector has a byte that was used, and a launch takes time: 0 stands for "nothing to measure" or a fault.
_ZERO = {
    "bytes_used_per_load_sector": "not_applicable",
    "bytes_used_per_store_sector": "not_applicable",
    "duration": "failed",
    "sm_clock": "failed",
}
_US = "pct_of_peak_sustained_active"
_ELAPSED = "pct_of_peak_sustained_elapsed"
_OPS = "sm__ops_path_tensor"
_SASS = "smsp__sass_thread_inst_executed_op"
_PEAK = "sum.peak_sustained"


def _group(group: str, *rows: tuple[str, str, str, tuple[str, ...]]) -> tuple[Metric, ...]:
    return tuple(Metric(name, unit, group, said, made, zero=_ZERO.get(name, "")) for name, unit, said, made in rows)


def _instructions(kind: str, what: str) -> tuple[str, str, str, tuple[str, ...]]:
    counter = f"{_SASS}_{kind}_pred_on.sum"
    scaled = f"{counter}.per_cycle_elapsed * smsp__cycles_elapsed.avg.per_second * duration"
    sources: tuple[str, ...] = (counter, scaled)
    if kind in ("ffma", "dfma"):
        doubled = f"derived__{_SASS}_{kind}_pred_on_x2 * smsp__cycles_elapsed.avg.per_second * duration / 2"
        sources = (*sources, doubled)
    return (f"{kind}_instructions", "inst", f"{what}, counted per thread whose predicate is on.", sources)


def _tensor(name: str, path: str, what: str) -> tuple[str, str, str, tuple[str, ...]]:
    sources: tuple[str, ...] = (f"{_OPS}_{path}.sum",)
    if "_" not in name:  # chips before Hopper do not count operations; their executed matrix instructions do
        sources = (*sources, f"opcodes__tensor_{name}")
    return (f"tensor_ops_{name}", "op", f"{what}, a multiply-add counted as two.", sources)


def _tensor_roof(name: str, path: str, what: str) -> tuple[str, str, str, tuple[str, ...]]:
    return (
        f"roof.{name}",
        "FLOP/s",
        f"Dense peak of {what} at this pass's clock.",
        (f"{_OPS}_{path}.{_PEAK} * sm__cycles_elapsed.avg.per_second",),
    )


NCU_METRICS: tuple[Metric, ...] = (
    *_group(
        "time",
        ("duration", "s", "Time of one launch under the profiler, for rates inside this pass only; not used to rank.",
         ("gpu__time_duration.sum", "gpu__time_duration")),
        ("sm_clock", "Hz", "Clock of the multiprocessors during the pass; it falls under a power cap.",
         ("smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second",
          "gpc__cycles_elapsed.avg.per_second")),
        ("l1_clock", "Hz", "Clock of the L1 caches during the pass.", ("l1tex__cycles_elapsed.avg.per_second",)),
        ("l2_clock", "Hz", "Clock of the L2 cache during the pass.", ("lts__cycles_elapsed.avg.per_second",)),
        ("dram_clock", "Hz", "Clock of the device memory during the pass.", ("dram__cycles_elapsed.avg.per_second",)),
        ("sm_cycles_elapsed", "cycle", "Cycles from the start to the end of the launch.",
         ("sm__cycles_elapsed.max", "gpc__cycles_elapsed.max")),
        ("sm_cycles_active", "cycle", "Cycles in which a multiprocessor had work, averaged over all of them.",
         ("sm__cycles_active.avg",)),
        ("sm_cycles_active_min", "cycle", "Active cycles of the least busy multiprocessor; 0 when one stayed idle.",
         ("sm__cycles_active.min",)),
        ("sm_cycles_active_max", "cycle", "Active cycles of the busiest multiprocessor.", ("sm__cycles_active.max",)),
        ("replay_passes", "1", "How often ncu ran the launch again to collect all counters.",
         ("profiler__replayer_passes",)),
    ),
    *_group(
        "throughput",
        ("sm_throughput", "%", "Highest utilization among the compute units of the multiprocessor.",
         (f"sm__throughput.avg.{_ELAPSED}",)),
        ("memory_throughput", "%", "Highest utilization among the memory units, from shared memory to DRAM.",
         (f"gpu__compute_memory_throughput.avg.{_ELAPSED}",)),
    ),
    *_group(
        "dram",
        ("dram_bytes_read", "B", "Bytes read from device memory.",
         ("dram__bytes_read.sum", "dram__read_bytes.sum", "dram__read_bytes")),
        ("dram_bytes_write", "B", "Bytes written to device memory; what stays in a write-back L2 is not among them.",
         ("dram__bytes_write.sum", "dram__write_bytes.sum", "dram__write_bytes")),
        ("dram_bytes", "B", "Bytes moved to and from device memory.",
         ("dram_bytes_read + dram_bytes_write", "dram__bytes.sum", "dram__bytes.sum.per_second * duration")),
        ("dram_bandwidth", "B/s", "Device memory traffic per second of this pass.",
         ("dram__bytes.sum.per_second", "dram_bytes / duration", "dram__bytes_per_sec")),
    ),
    *_group(
        "l2",
        ("l2_bytes", "B", "Bytes between the multiprocessors and L2: sectors of 32 B that L1 asked for.",
         ("lts__t_sectors_srcunit_tex.sum * 32", "derived__lts__lts2xbar_bytes.sum.per_second * duration")),
        ("l2_bandwidth", "B/s", "L2 traffic per second of this pass.", ("l2_bytes / duration",)),
        ("l2_sectors", "sector", "All sectors looked up in L2, whoever asked.", ("lts__t_sectors.sum",)),
        ("l2_sectors_read", "sector", "Sectors read from L2.", ("lts__t_sectors_op_read.sum",)),
        ("l2_sectors_write", "sector", "Sectors written to L2.", ("lts__t_sectors_op_write.sum",)),
        ("l2_sector_rate_peak", "sector/cycle", "Sectors that L2 can look up in a cycle: a tag rate, no roof of bytes.",
         (f"lts__t_sectors.{_PEAK}",)),
        ("l2_hit_rate", "%", "Share of the looked-up sectors that L2 held.", ("lts__t_sector_hit_rate.pct",)),
    ),
    *_group(
        "l1",
        ("l1_wavefronts", "1", "Wavefronts of the L1 data pipe: global, local and shared accesses together.",
         ("l1tex__data_pipe_lsu_wavefronts.sum",)),
        ("l1_bytes", "B", "Upper bound of the bytes through the L1 data pipe, shared memory included: 128 B each.",
         ("l1_wavefronts * 128",
          "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.per_second * duration + shared_bytes")),
        ("l1_bandwidth", "B/s", "Upper bound of the L1 data pipe's bytes per second of this pass.",
         ("l1_bytes / duration",)),
        ("l1_writeback_bytes", "B", "Bytes returned to registers by loads, in units of 128 B a cycle.",
         ("l1tex__lsu_writeback_active.sum * 128",)),
        ("l1_hit_rate", "%", "Share of the sectors that L1 held; low is right where shared memory does the caching.",
         ("l1tex__t_sector_hit_rate.pct",)),
        ("l1_pipe_utilization", "%", "Share of the L1 data pipe's cycles in use.",
         (f"l1tex__data_pipe_lsu_wavefronts.avg.{_ELAPSED}",)),
        ("l1_request_utilization", "%", "Share of the slots in which a load or store can enter L1.",
         (f"l1tex__lsuin_requests.avg.{_ELAPSED}",)),
    ),
    *_group(
        "global",
        ("global_load_requests", "1", "Global load instructions that reached L1, one per warp.",
         ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",)),
        ("global_load_sectors", "sector", "Sectors of 32 B that the global loads touched.",
         ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",)),
        ("global_store_requests", "1", "Global store instructions that reached L1, one per warp.",
         ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",)),
        ("global_store_sectors", "sector", "Sectors of 32 B that the global stores touched.",
         ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",)),
        ("sectors_per_load_request", "sector", "Sectors per global load: 4 for coalesced 4-byte, 16 for 16-byte.",
         ("global_load_sectors / global_load_requests",)),
        ("sectors_per_store_request", "sector", "Sectors per global store: 4 for coalesced 4-byte, 16 for 16-byte.",
         ("global_store_sectors / global_store_requests",)),
        ("bytes_used_per_load_sector", "B", "Bytes of each loaded 32-byte sector that a thread asked for.",
         ("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",)),
        ("bytes_used_per_store_sector", "B", "Bytes of each stored 32-byte sector that a thread wrote.",
         ("smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",)),
        ("global_sectors_sass", "sector", "Sectors that the global accesses need by their addresses.",
         ("memory_l2_theoretical_sectors_global",)),
        ("global_sectors_excess", "sector", "Sectors beyond those that perfectly coalesced accesses would need.",
         ("memory_l2_theoretical_sectors_global - memory_l2_theoretical_sectors_global_ideal",)),
    ),
    *_group(
        "shared",
        ("shared_wavefronts", "1", "Wavefronts of shared memory: passes of 128 B through the banks.",
         ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",)),
        ("shared_bytes", "B", "Upper bound of the bytes of shared memory: 128 B a wavefront, broadcasts too.",
         ("shared_wavefronts * 128",)),
        ("shared_bandwidth", "B/s", "Upper bound of the shared memory bytes per second of this pass.",
         ("shared_bytes / duration",)),
        ("shared_bank_conflicts", "1", "Extra wavefronts by the hardware's count; noisy, so judge by the excess.",
         ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",)),
        ("shared_wavefronts_sass", "1", "Wavefronts that the shared accesses need by their addresses.",
         ("memory_l1_wavefronts_shared",)),
        ("shared_wavefronts_excess", "1", "Wavefronts beyond those that conflict-free accesses would need.",
         ("memory_l1_wavefronts_shared - memory_l1_wavefronts_shared_ideal",
          "derived__memory_l1_wavefronts_shared_excessive")),
    ),
    *_group(
        "compute",
        _instructions("fadd", "FP32 additions"),
        _instructions("fmul", "FP32 multiplications"),
        _instructions("ffma", "FP32 fused multiply-adds"),
        _instructions("dadd", "FP64 additions"),
        _instructions("dmul", "FP64 multiplications"),
        _instructions("dfma", "FP64 fused multiply-adds"),
        _instructions("hadd", "FP16 additions, two lanes each"),
        _instructions("hmul", "FP16 multiplications, two lanes each"),
        _instructions("hfma", "FP16 fused multiply-adds, two lanes each; some only move data"),
        ("fp32_flop", "FLOP", "FP32 operations outside the tensor cores.",
         ("2 * ffma_instructions + fadd_instructions + fmul_instructions",)),
        ("fp64_flop", "FLOP", "FP64 operations outside the tensor cores.",
         ("2 * dfma_instructions + dadd_instructions + dmul_instructions",)),
        ("fp16_flop", "FLOP", "Upper bound of FP16 operations outside the tensor cores; HFMA2 moves count too.",
         ("4 * hfma_instructions + 2 * hadd_instructions + 2 * hmul_instructions",)),
        ("fp32_rate", "FLOP/s", "FP32 operations per second of this pass.", ("fp32_flop / duration",)),
    ),
    *_group(
        "tensor",
        _tensor("bf16", "src_bf16_dst_fp32", "Tensor-core operations on BF16"),
        _tensor("fp16", "src_fp16", "Tensor-core operations on FP16"),
        _tensor("tf32", "src_tf32_dst_fp32", "Tensor-core operations on TF32"),
        _tensor("fp8", "src_fp8", "Tensor-core operations on FP8"),
        _tensor("int8", "src_int8", "Tensor-core operations on INT8"),
        _tensor("fp64", "src_fp64", "Tensor-core operations on FP64"),
        _tensor("bf16_hgmma", "op_hgmma_src_bf16_dst_fp32_sparsity_off", "Those on BF16 issued by wgmma"),
        _tensor("bf16_hmma", "op_hmma_src_bf16_dst_fp32_sparsity_off", "Those on BF16 issued by mma.sync"),
        _tensor("fp16_hgmma", "op_hgmma_src_fp16_sparsity_off", "Those on FP16 issued by wgmma"),
        _tensor("fp16_hmma", "op_hmma_src_fp16_dst_fp32_sparsity_off", "Those on FP16 with FP32 sums by mma.sync"),
        _tensor("tf32_hgmma", "op_hgmma_src_tf32_dst_fp32_sparsity_off", "Those on TF32 issued by wgmma"),
        _tensor("tf32_hmma", "op_hmma_src_tf32_dst_fp32_sparsity_off", "Those on TF32 issued by mma.sync"),
    ),
    *_group(
        "pipes",
        ("pipe_tensor", "%", "Share of active cycles in which the tensor pipe worked; HFMA2 moves leave a trace.",
         (f"sm__pipe_tensor_cycles_active.avg.{_US}",)),
        ("pipe_fma", "%", "Share of active cycles in which the FP32 multiply-add pipes worked.",
         (f"sm__pipe_fma_cycles_active.avg.{_US}",)),
        ("pipe_fma_issue", "%", "Instructions of the FP32 multiply-add pipes against what they can take.",
         (f"sm__inst_executed_pipe_fma.avg.{_US}",)),
        ("pipe_fmaheavy", "%", "Share of active cycles of the heavier FP32 pipe, which also multiplies integers.",
         (f"sm__pipe_fmaheavy_cycles_active.avg.{_US}",)),
        ("pipe_alu", "%", "Share of active cycles in which the integer and logic pipe worked.",
         (f"sm__pipe_alu_cycles_active.avg.{_US}",)),
        ("pipe_alu_issue", "%", "Instructions of the integer and logic pipe against what it can take.",
         (f"sm__inst_executed_pipe_alu.avg.{_US}",)),
        ("pipe_xu", "%", "Instructions of the pipe of transcendentals and conversions against what it can take.",
         (f"sm__inst_executed_pipe_xu.avg.{_US}",)),
        ("pipe_lsu", "%", "Instructions of the load and store pipe against what it can take.",
         (f"sm__inst_executed_pipe_lsu.avg.{_US}",)),
        ("pipe_fp64", "%", "Share of active cycles in which the FP64 pipe worked.",
         (f"sm__pipe_fp64_cycles_active.avg.{_US}",)),
        ("pipe_fp64_issue", "%", "Instructions of the FP64 pipe against what it can take.",
         (f"sm__inst_executed_pipe_fp64.avg.{_US}",)),
        ("pipe_uniform", "%", "Instructions of the uniform pipe, one per warp, against what it can take.",
         (f"sm__inst_executed_pipe_uniform.avg.{_US}",)),
    ),
    *_group(
        "issue",
        ("instructions", "inst", "Instructions executed, one per warp.", ("smsp__inst_executed.sum",)),
        ("instructions_per_scheduler", "inst", "Instructions executed per scheduler, averaged over all of them.",
         ("smsp__inst_executed.avg",)),
        ("issue_active", "1", "Instructions issued per active cycle of a scheduler; 1 is the most.",
         ("smsp__issue_active.avg.per_cycle_active",)),
        ("warp_latency", "cycle", "Cycles between two instructions of the same warp; the stall reasons add up to it.",
         ("smsp__average_warp_latency_per_inst_issued.ratio",)),
        ("warps_active", "warp", "Warps resident per multiprocessor and active cycle.",
         ("sm__warps_active.avg.per_cycle_active",)),
        ("warps_per_scheduler", "warp", "Warps resident per scheduler and active cycle; an SM has four schedulers.",
         ("smsp__warps_active.avg.per_cycle_active", "warps_active / 4")),
        ("active_share", "1", "Share of the launch in which schedulers had work; the rest is start, tail, idle SMs.",
         ("instructions_per_scheduler / issue_active / duration / sm_clock",)),
        ("threads_per_instruction", "thread", "Threads of a warp that execute an instruction: 32 without divergence.",
         ("smsp__thread_inst_executed_per_inst_executed.ratio",)),
        ("ldgsts_instructions", "inst", "Asynchronous copies from global to shared memory (cp.async).",
         ("smsp__inst_executed_op_ldgsts.sum",)),
        ("tma_load_instructions", "inst", "Bulk tensor loads issued to the tensor memory accelerator.",
         ("smsp__inst_executed_op_tma_ld.sum",)),
        ("ldsm_instructions", "inst", "Matrix loads from shared memory (ldmatrix).",
         ("smsp__inst_executed_op_ldsm.sum",)),
        ("pc_samples", "1", "Samples of the program counter behind the source view.", ("smsp__pcsamp_sample_count",)),
        ("pc_samples_dropped_bytes", "B", "Bytes of samples that were lost; above 0 the source view is incomplete.",
         ("smsp__pcsamp_dropped_bytes",)),
    ),
    *_group(
        "occupancy",
        ("theoretical_occupancy", "%", "Warps that the launch's resources allow, against what a multiprocessor holds.",
         ("sm__maximum_warps_per_active_cycle_pct",)),
        ("achieved_occupancy", "%", "Warps that were resident, against what a multiprocessor holds.",
         (f"sm__warps_active.avg.{_US}",)),
        ("occupancy_limit_registers", "block", "Resident blocks per multiprocessor that the registers allow.",
         ("launch__occupancy_limit_registers",)),
        ("occupancy_limit_shared_memory", "block", "Resident blocks per multiprocessor that shared memory allows.",
         ("launch__occupancy_limit_shared_mem",)),
        ("occupancy_limit_warps", "block", "Resident blocks per multiprocessor that the warp slots allow.",
         ("launch__occupancy_limit_warps",)),
        ("occupancy_limit_blocks", "block", "Resident blocks per multiprocessor that the hardware allows at most.",
         ("launch__occupancy_limit_blocks",)),
        ("occupancy_limit_barriers", "block", "Resident blocks per multiprocessor that the barriers allow.",
         ("launch__occupancy_limit_barriers",)),
    ),
    *_group(
        "launch",
        ("registers", "register", "Registers per thread.", ("launch__registers_per_thread",)),
        ("shared_static", "B", "Shared memory per block declared with a fixed size.",
         ("launch__shared_mem_per_block_static",)),
        ("shared_dynamic", "B", "Shared memory per block given at the launch.",
         ("launch__shared_mem_per_block_dynamic",)),
        ("grid", "block", "Blocks of the launch.", ("launch__grid_size",)),
        ("block", "thread", "Threads of a block.", ("launch__block_size",)),
        ("cluster", "block", "Blocks of a cluster; 0 without clusters.", ("launch__cluster_size",)),
        ("threads", "thread", "Threads of the launch.", ("launch__thread_count",)),
        ("waves", "1", "Times that the grid fills the GPU; 1 for a persistent kernel.",
         ("launch__waves_per_multiprocessor",)),
    ),
    *_group(
        "spills",
        ("local_load_instructions", "inst", "Loads from local memory: spilled registers or arrays indexed at run time.",
         ("smsp__sass_inst_executed_op_local_ld.sum",)),
        ("local_store_instructions", "inst", "Stores to local memory: spilled registers or arrays indexed at run time.",
         ("smsp__sass_inst_executed_op_local_st.sum",)),
        ("spill_instructions", "inst", "Instructions executed only to spill registers and to bring them back.",
         ("sass__inst_executed_register_spilling",)),
    ),
    *_group(
        "device",
        ("gpu_name", "text", "The GPU as the driver names it.", ("device__attribute_display_name",)),
        ("compute_capability", "1", "Compute capability, major and minor.",
         ("device__attribute_compute_capability_major + device__attribute_compute_capability_minor / 10",)),
        ("sm_count", "1", "Multiprocessors of the GPU.", ("device__attribute_multiprocessor_count",)),
    ),
    *_group(
        "roofs",
        ("roof.dram", "B/s", "Peak of device memory at this pass's memory clock.",
         (f"dram__bytes.{_PEAK} * dram__cycles_elapsed.avg.per_second",)),
        ("roof.l2", "B/s", "Peak of L2 towards the multiprocessors at this pass's L2 clock.",
         (f"lts__t_sectors_srcunit_tex.{_PEAK} * 32 * lts__cycles_elapsed.avg.per_second",
          f"derived__lts__lts2xbar_bytes.{_PEAK} * lts__cycles_elapsed.avg.per_second")),
        ("roof.l1", "B/s", "Peak of the L1 data pipes: one wavefront of 128 B a cycle each, at this pass's clock.",
         (f"l1tex__data_pipe_lsu_wavefronts.{_PEAK} * 128 * l1tex__cycles_elapsed.avg.per_second",
          f"derived__l1tex__lsu_writeback_bytes_mem_lgds.{_PEAK} * l1tex__cycles_elapsed.avg.per_second")),
        ("roof.shared", "B/s", "Peak of shared memory: one wavefront of 128 B a cycle each, at this pass's clock.",
         (f"l1tex__data_pipe_lsu_wavefronts_mem_shared.{_PEAK} * 128 * l1tex__cycles_elapsed.avg.per_second",
          f"derived__l1tex__lsu_writeback_bytes_mem_lgds.{_PEAK} * l1tex__cycles_elapsed.avg.per_second")),
        ("roof.ffma", "FLOP/s", "Peak of FP32 multiply-adds outside the tensor cores at this pass's clock.",
         (f"2 * sm__sass_thread_inst_executed_op_ffma_pred_on.{_PEAK} * sm__cycles_elapsed.avg.per_second",
          "derived__sm__sass_thread_inst_executed_op_ffma_pred_on_x2 * sm__cycles_elapsed.avg.per_second")),
        ("roof.dfma", "FLOP/s", "Peak of FP64 multiply-adds outside the tensor cores at this pass's clock.",
         (f"2 * sm__sass_thread_inst_executed_op_dfma_pred_on.{_PEAK} * sm__cycles_elapsed.avg.per_second",
          "derived__sm__sass_thread_inst_executed_op_dfma_pred_on_x2 * sm__cycles_elapsed.avg.per_second")),
        ("roof.hfma", "FLOP/s", "Peak of FP16 multiply-adds (two lanes) outside the tensor cores at this pass's clock.",
         (f"4 * sm__sass_thread_inst_executed_op_hfma_pred_on.{_PEAK} * sm__cycles_elapsed.avg.per_second",
          "derived__sm__sass_thread_inst_executed_op_hfma_pred_on_x4 * sm__cycles_elapsed.avg.per_second")),
        _tensor_roof("hgmma_bf16", "op_hgmma_src_bf16_dst_fp32_sparsity_off", "BF16 by wgmma"),
        _tensor_roof("hgmma_fp16", "op_hgmma_src_fp16_sparsity_off", "FP16 by wgmma"),
        _tensor_roof("hgmma_tf32", "op_hgmma_src_tf32_dst_fp32_sparsity_off", "TF32 by wgmma"),
        _tensor_roof("hmma_bf16", "op_hmma_src_bf16_dst_fp32_sparsity_off", "BF16 by mma.sync"),
        _tensor_roof("hmma_fp16", "op_hmma_src_fp16_dst_fp32_sparsity_off", "FP16 by mma.sync with FP32 sums"),
        _tensor_roof("hmma_tf32", "op_hmma_src_tf32_dst_fp32_sparsity_off", "TF32 by mma.sync"),
        _tensor_roof("fp8", "src_fp8_sparsity_off", "FP8 by the tensor cores"),
        _tensor_roof("igmma_int8", "op_igmma_src_int8_sparsity_off", "INT8 by wgmma"),
        _tensor_roof("imma_int8", "op_imma_src_int8_sparsity_off", "INT8 by mma.sync"),
        _tensor_roof("dmma_fp64", "src_fp64", "FP64 by the tensor cores"),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class StallReason:
    """Why a warp did not issue: ncu's name made uniform, and one sentence.

    ``kind`` is ``stall``, ``eligible`` (ready, but another warp went first) or ``issue`` (it issued).
    """

    name: str
    meaning: str
    kind: str = "stall"


STALL_REASONS: tuple[StallReason, ...] = (
    StallReason("barrier", "Waits at a barrier until the other warps of the block arrive."),
    StallReason("branch_resolving", "Waits for the target of a branch."),
    StallReason("dispatch_stall", "Could issue, but the dispatcher holds it back for a conflict of resources."),
    StallReason("drain", "Waits after its exit until its stores have been written."),
    StallReason("gmma", "Waits for a warpgroup matrix instruction or its registers."),
    StallReason("imc_miss", "Waits for a constant that was not in the immediate constant cache."),
    StallReason("lg_throttle", "The queue of local and global memory instructions is full."),
    StallReason("long_scoreboard", "Waits for data from global, local or texture memory."),
    StallReason("math_pipe_throttle", "The arithmetic pipe that it needs is busy."),
    StallReason("membar", "Waits for a memory fence."),
    StallReason("mio_throttle", "The queue of shared memory, special function and similar instructions is full."),
    StallReason("misc", "A reason that the hardware does not tell apart."),
    StallReason("no_instruction", "Waits for its next instruction, after a miss of the instruction cache or a jump."),
    StallReason("not_selected", "Was ready, but the scheduler chose another warp.", "eligible"),
    StallReason("selected", "Issued an instruction.", "issue"),
    StallReason("short_scoreboard", "Waits for data from shared memory or a special function unit."),
    StallReason("sleeping", "Put itself to sleep."),
    StallReason("tex_throttle", "The queue of texture instructions is full."),
    StallReason("wait", "Waits a fixed number of cycles that the compiler set."),
)
