"""What ncu's details page calls its metrics, and what is the short name of a kernel. Pure; the table is closed."""

from __future__ import annotations

import re

_SOL = "GPU Speed Of Light Throughput"
_MEMORY = "Memory Workload Analysis"
_LAUNCH = "Launch Statistics"
_US, _ELAPSED = "pct_of_peak_sustained_active", "pct_of_peak_sustained_elapsed"

#: (section, label) -> ncu's name, for the labels that the metric table can use; the same label differs by section.
DETAILS: dict[tuple[str, str], str] = {
    (_SOL, "Duration"): "gpu__time_duration.sum",
    (_SOL, "DRAM Frequency"): "dram__cycles_elapsed.avg.per_second",
    (_SOL, "SM Frequency"): "smsp__cycles_elapsed.avg.per_second",
    (_SOL, "Elapsed Cycles"): "gpc__cycles_elapsed.max",
    (_SOL, "SM Active Cycles"): "sm__cycles_active.avg",
    (_SOL, "Memory Throughput"): f"gpu__compute_memory_throughput.avg.{_ELAPSED}",
    (_SOL, "SOL Memory"): f"gpu__compute_memory_throughput.avg.{_ELAPSED}",
    (_SOL, "Memory [%]"): f"gpu__compute_memory_throughput.avg.{_ELAPSED}",
    (_SOL, "Compute (SM) Throughput"): f"sm__throughput.avg.{_ELAPSED}",
    (_SOL, "Compute (SM) [%]"): f"sm__throughput.avg.{_ELAPSED}",
    (_SOL, "SOL SM"): f"sm__throughput.avg.{_ELAPSED}",
    (_SOL, "DRAM Throughput"): f"gpu__dram_throughput.avg.{_ELAPSED}",
    (_SOL, "L2 Cache Throughput"): f"lts__throughput.avg.{_ELAPSED}",
    (_SOL, "L1/TEX Cache Throughput"): f"l1tex__throughput.avg.{_US}",
    (_MEMORY, "Memory Throughput"): "dram__bytes.sum.per_second",
    (_MEMORY, "L1/TEX Hit Rate"): "l1tex__t_sector_hit_rate.pct",
    (_MEMORY, "L2 Hit Rate"): "lts__t_sector_hit_rate.pct",
    (_LAUNCH, "Registers Per Thread"): "launch__registers_per_thread",
    (_LAUNCH, "Static Shared Memory Per Block"): "launch__shared_mem_per_block_static",
    (_LAUNCH, "Dynamic Shared Memory Per Block"): "launch__shared_mem_per_block_dynamic",
    (_LAUNCH, "Grid Size"): "launch__grid_size",
    (_LAUNCH, "Block Size"): "launch__block_size",
    (_LAUNCH, "Cluster Size"): "launch__cluster_size",
    (_LAUNCH, "Threads"): "launch__thread_count",
    (_LAUNCH, "Waves Per SM"): "launch__waves_per_multiprocessor",
    (_LAUNCH, "# SMs"): "device__attribute_multiprocessor_count",
    ("Occupancy", "Theoretical Occupancy"): "sm__maximum_warps_per_active_cycle_pct",
    ("Occupancy", "Achieved Occupancy"): f"sm__warps_active.avg.{_US}",
    ("Occupancy", "Achieved Active Warps Per SM"): "sm__warps_active.avg.per_cycle_active",
    ("Occupancy", "Block Limit Registers"): "launch__occupancy_limit_registers",
    ("Occupancy", "Block Limit Shared Mem"): "launch__occupancy_limit_shared_mem",
    ("Occupancy", "Block Limit Warps"): "launch__occupancy_limit_warps",
    ("Occupancy", "Block Limit SM"): "launch__occupancy_limit_blocks",
    ("Occupancy", "Block Limit Barriers"): "launch__occupancy_limit_barriers",
    ("Scheduler Statistics", "Issued Warp Per Scheduler"): "smsp__issue_active.avg.per_cycle_active",
    ("Warp State Statistics", "Warp Cycles Per Issued Instruction"):
        "smsp__average_warp_latency_per_inst_issued.ratio",
    ("Warp State Statistics", "Avg. Active Threads Per Warp"): "smsp__thread_inst_executed_per_inst_executed.ratio",
    ("Instruction Statistics", "Executed Instructions"): "smsp__inst_executed.sum",
    ("Instruction Statistics", "Avg. Executed Instructions Per Scheduler"): "smsp__inst_executed.avg",
}  # fmt: skip
#: Older tools call the section by a shorter name.
DETAILS |= {("GPU Speed Of Light", label): name for (section, label), name in DETAILS.items() if section == _SOL}


def short_name(demangled: str) -> str:
    """Return a kernel's function: without result, scope, template arguments and parameters; never empty."""
    plain = demangled.replace("(anonymous namespace)", "").replace("<unnamed>", "")
    depth, kept = 0, []
    for character in plain:
        if character == "(" and depth == 0:
            break
        depth += (character in "<[") - (character in ">]")
        if depth == 0 and character not in ">]":
            kept.append(character)
    words = re.split(r"::|\s", "".join(kept).strip())
    return words[-1] or demangled
