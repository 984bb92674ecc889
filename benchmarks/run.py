import runpy, sys, os

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
runpy.run_module("benchmarks", run_name="__main__", alter_sys=True)
