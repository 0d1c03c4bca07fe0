"""A stand-in for the check, for tests of what is around it: a second instead of minutes, and told how to end.

`PROGRAM` is its text. What it does is the first word of the variable SMOKE_FAKE: pass (also without it), fail, blind
(its GPU check is skipped), crash, silent (no report), cut (half a report), wrong (exit status against the report),
sleep (until it's ended), removes:PATH (passes, and a file lies where that folder was).
"""

PROGRAM = """
import argparse, json, os, platform, shutil, signal, socket, sys, time

parser = argparse.ArgumentParser()
for name in ("config", "workload", "device", "json"):
    parser.add_argument("--" + name)
parser.add_argument("--steps", type=int)
parser.add_argument("--timeout", type=int)
parser.add_argument("--quick", action="store_true")
parser.add_argument("--only", action="append")
asked = parser.parse_args()
config = json.load(open(asked.config))
mode = os.environ.get("SMOKE_FAKE", "pass")
print("fake check of", config["target"], "on", socket.gethostname(), "in mode", mode, flush=True)
if mode == "sleep":
    open(os.path.join(os.path.dirname(asked.json), "started"), "w").write(str(os.getpid()))
    time.sleep(600)
if mode.startswith("removes:"):
    shutil.rmtree(mode[8:])
    open(mode[8:], "w").close()
if mode == "crash":
    print("last words of the check", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
if mode == "silent":
    print("nothing to report", flush=True)
    sys.exit(0)


def check(name, group, status, reason=None, needs_gpu=False):
    return {"name": name, "group": group, "needs_gpu": needs_gpu, "status": status, "reason": reason,
            "remedy": "mend it" if status == "fail" else None, "seconds": 0.1, "details": {}, "output": None}


checks = [check("static.distributions", "static", "pass")]
if mode == "fail":
    checks.append(check("training.fp32", "training", "fail", "the loss is NaN after step 3"))
if mode == "blind":
    checks.append(check("device.driver", "device", "skip", "there is no GPU", needs_gpu=True))
failed = sum(one["status"] == "fail" for one in checks)
value = 100.0
document = {
    "schema": 1, "kind": "envspec-check", "spec": config["spec"], "target": config["target"],
    "lock_digest": config["lock_digest"], "fingerprint": config["fingerprint"],
    "workload": asked.workload or config["workload"], "steps": asked.steps or config["steps"], "device": "cpu",
    "quick": asked.quick, "complete": True, "seed": 0, "started": "2026-11-21T12:00:00Z", "seconds": 0.2,
    "machine": {"python": platform.python_version(), "system": platform.platform(), "glibc": None, "cpus": 2,
                "memory_bytes": None, "shm_bytes": None, "driver": None, "gpus": []},
    "torch": None, "checks": checks,
    "figures": [{"name": "training.samples_per_s", "value": value, "unit": "samples/s",
                 "reference": config["references"].get("training.samples_per_s"), "verdict": None}],
    "curves": {},
    "summary": {"passed": len(checks) - failed, "failed": failed, "skipped": 0, "gpu_skipped": 0, "gpu_total": 0,
                "verdict": "fail" if failed else "pass", "headline": ""},
}
text = json.dumps(document)
with open(asked.json, "w") as file:
    file.write(text[: len(text) // 2] if mode == "cut" else text)
sys.exit(1 if failed or mode == "wrong" else 0)
"""
