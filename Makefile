# make run: set up and execute the study notebooks; make test: set up and run the tests. Both are safe to repeat.
PRESET ?= lecture
STUDIES ?= $(notdir $(wildcard params/*))
UV_VERSION = 0.13.9
UV = .tools/bin/uv --cache-dir .tools/cache --quiet
PYTHON = .venv/bin/python
export OMP_NUM_THREADS = 1

.PHONY: run test slow bench dashboard slides site lock clean

run: .venv/ready
	@for study in $(STUDIES); do echo "$$study, preset $(PRESET)"; .venv/bin/lbkit run $$study $(PRESET) || exit 1; done

test: .venv/ready
	$(PYTHON) -m pytest -q

slow: .venv/ready
	$(PYTHON) -m pytest -q -m slow

# Serves the panels; a visitor's kernel ends ten minutes after the last sign of life. VOILA takes further options.
dashboard: .venv/ready
	JUPYTER_PATH=dashboard .venv/bin/voila notebooks/explore.ipynb --no-browser --template=lbkit \
	  --MappingKernelManager.cull_idle_timeout=600 --MappingKernelManager.cull_interval=60 \
	  --MappingKernelManager.cull_connected=True $(VOILA)

# Both show the newest runs of PRESET that lie in runs/, and need no network, neither to be made nor to be read.
slides: .venv/ready
	$(PYTHON) docs/slides.py build/slides --preset $(PRESET)

site: .venv/ready
	$(PYTHON) docs/book.py build/site --preset $(PRESET)

bench: .venv/ready
	$(UV) pip install -r benchmarks/requirements.txt
	for script in benchmarks/*.py; do $(PYTHON) $$script || exit 1; done

.venv/ready: requirements.lock pyproject.toml .tools/bin/uv
	test -x $(PYTHON) || $(UV) venv --python python3 .venv
	$(UV) pip sync --compile-bytecode --require-hashes requirements.lock
	$(UV) pip install --no-deps --no-build-isolation -e .
	touch $@

.tools/bin/uv:
	python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target .tools uv==$(UV_VERSION)

# Rewrites requirements.lock (hashes, no registry named) and the versions in environment.yml from pyproject.toml.
lock: .tools/bin/uv
	$(UV) pip compile pyproject.toml --extra test --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -o requirements.lock
	$(PYTHON) tests/environment.py > environment.yml

clean:
	rm -rf .venv .tools runs build
