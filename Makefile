# `make app` and `make test` do everything on a machine with Python 3.11 or newer and nothing installed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
CHECKPOINTS := model_cards

.PHONY: app test run-tests test-nightly nightly-tests nightly-attacks hub-smoke gpu lint lint-web bench bench-long reach sources sources-full soak test-versions licences reference figures checkpoints cards space pictures chromium clean

app: $(VENV)/.app
	$(BIN)/python app.py $(ARGS)

# Tests start processes: none compiles the package again, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

# The lint, of one core, beside the tests: whichever fails, both are seen to the end.
test: $(VENV)/.test chromium
	$(MAKE) --no-print-directory --jobs 2 --keep-going lint run-tests

run-tests: $(VENV)/.test
	$(BIN)/python -m tests.run

# The wide matrices, the screens in a browser, fresh environments; then kills, a class of thirty, odd input and
# strangers' checkpoints. docs/reliability.md has the figures.
test-nightly: $(VENV)/.test chromium
	$(MAKE) --no-print-directory --keep-going nightly-tests nightly-attacks
	$(MAKE) figures

nightly-tests: $(VENV)/.test
	$(BIN)/python -m tests.run nightly

nightly-attacks: $(VENV)/.test
	$(BIN)/python -m tests.hard

# Twenty minutes of mixed use.
soak: $(VENV)/.test chromium
	$(BIN)/python -m tests.hard soak
	$(MAKE) figures

# The tests on the lowest and the newest torch, transformers and Gradio, in environments of their own.
test-versions: $(VENV)/.test
	$(BIN)/python -m tests.hard versions
	$(MAKE) figures

# A round trip through the real Hub; never in CI.
hub-smoke: $(VENV)/.test
	$(BIN)/python -m tests.hub.hub_smoke

# Where there is a GPU.
gpu: $(VENV)/.test
	$(BIN)/python -m pytest -m gpu
	$(BIN)/python -m benchmarks.gpu

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The page's scripts, by tools that npm installs: nothing else needs it.
lint-web: tests/web/node_modules/.installed
	cd tests/web && npm run --silent lint

tests/web/node_modules/.installed: tests/web/package-lock.json
	cd tests/web && npm ci --silent --no-audit --no-fund
	touch $@

bench: $(VENV)/.test chromium
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.train_speed
	$(BIN)/python -m benchmarks.generation
	$(BIN)/python -m benchmarks.recurrent_speed
	$(BIN)/python -m benchmarks.scaling
	$(BIN)/python -m benchmarks.app_speed
	$(BIN)/python -m benchmarks.time_to_accuracy --product

# Those that train for long: half an hour and more each.
bench-long: $(VENV)/.test
	$(BIN)/python -m benchmarks.attention_scaling
	$(BIN)/python -m benchmarks.accuracy
	$(BIN)/python -m benchmarks.time_to_accuracy
	$(BIN)/python -m benchmarks.trainer_race

# The documents' claims that need no training, measured anew; the others' rows are kept.
SOURCES = benchmarks/results/sources.jsonl
sources: $(VENV)/.test
	$(BIN)/python -m hf_attn sources --measured $(SOURCES) --output docs/sources.md

# All of them: half an hour.
sources-full: $(VENV)/.test
	$(BIN)/python -m hf_attn sources --full --json > $(SOURCES).new
	mv $(SOURCES).new $(SOURCES)
	$(MAKE) sources

# Every checkpoint from its seed, with more steps than a live run takes; what is there is replaced.
checkpoints: $(VENV)/.app
	$(BIN)/python -m hf_attn train copy --seed 0 --steps 400 --output-dir $(CHECKPOINTS)/attn-copy
	$(BIN)/python -m hf_attn train addition --seed 0 --steps 3000 --set intermediate_size=256 \
		--output-dir $(CHECKPOINTS)/attn-addition
	$(BIN)/python -m hf_attn train arithmetic --seed 0 --output-dir $(CHECKPOINTS)/attn-addition-long
	$(BIN)/python -m hf_attn train parser --seed 0 --set depth=3 --steps 1200 --set hidden_size=128 \
		--set intermediate_size=512 --set encoder_layers=3 --set use_bias=false --set learning_rate=0.002 \
		--output-dir $(CHECKPOINTS)/attn-parser
	$(BIN)/python -m hf_attn train reverse --model additive --seed 0 --output-dir $(CHECKPOINTS)/bahdanau-reverse
	$(BIN)/python -m hf_attn train reverse --model none --seed 0 --steps 2000 --output-dir $(CHECKPOINTS)/lstm-reverse
	$(BIN)/python -m hf_attn train sort --seed 0 --steps 1200 --output-dir $(CHECKPOINTS)/attn-sort
	$(BIN)/python -m hf_attn train dates --seed 0 --output-dir $(CHECKPOINTS)/attn-dates
	$(BIN)/python -m hf_attn train dates --model additive --seed 0 --output-dir $(CHECKPOINTS)/bahdanau-dates
	$(BIN)/python -m hf_attn train topics --seed 0 --output-dir $(CHECKPOINTS)/attn-docstring-topics
	$(BIN)/python -m hf_attn train sentences --seed 0 --output-dir $(CHECKPOINTS)/attn-sentences
	for file in $(CHECKPOINTS)/*/*.py; do ln -sf ../../hf_attn/models/$$(basename $$file) $$file; done

# Learned on short inputs, right on long ones: all rows of the table, the checkpoint, its card and the figures.
REACH = $(BIN)/python -m hf_attn experiment reach
LONGER = --set models=both_ends --set test=500,1000 --set examples=10
OTHERS = both_ends without noise,both_ends with multiplier 1,coupled,abacus,t5_clipped,t5,alibi,rotary,none
reach: $(VENV)/.app
	rm -rf build/reach
	$(REACH) --seed 10 --seeds 5 --output-dir build/reach/1
	$(REACH) --seed 10 --seeds 5 $(LONGER) --output-dir build/reach/2
	$(REACH) --seed 10 --seeds 1 --set "models=$(OTHERS)" --output-dir build/reach/3
	$(REACH) --seed 30 --seeds 5 --set task=subtraction --set models=both_ends --output-dir build/reach/4
	$(REACH) --seed 30 --seeds 5 --set task=multiplication --set models=both_ends --output-dir build/reach/5
	$(REACH) --seed 10 --seeds 5 --set train=5 --set test=20,50,100 --set models=both_ends \
		--output-dir build/reach/6
	cat build/reach/*/rows.jsonl > benchmarks/results/experiments/reach.jsonl
	$(BIN)/python -m hf_attn train arithmetic --seed 0 --output-dir $(CHECKPOINTS)/attn-addition-long
	for file in $(CHECKPOINTS)/*/*.py; do ln -sf ../../hf_attn/models/$$(basename $$file) $$file; done
	$(MAKE) cards figures

# Measures every checkpoint anew, looks for its failures, and writes its card and the page that lists them all.
cards: $(VENV)/.app
	$(BIN)/python -m hf_attn cards $(CHECKPOINTS)

# The page of all commands, from their help.
reference: $(VENV)/.test
	$(BIN)/python -m docs.command_line

# The licences of all that an installation brings.
licences: $(VENV)/.test
	$(BIN)/python -m docs.licences

# The measured figures of README and docs, from the lines in benchmarks/results.
figures: $(VENV)/.test
	$(BIN)/python -m docs.figures

# The exact folder that `hf-attn push-space` pushes, to look at or to push by git.
space: $(VENV)/.app
	$(BIN)/python -m hf_attn space build/space

# The README's pictures, taken anew from the app.
pictures: $(VENV)/.test chromium
	$(BIN)/python -m docs.pictures

# The browser that the tests drive; where there is no apt, install Chromium by hand.
chromium:
	@command -v chromium-headless-shell >/dev/null || { apt-get update -qq && \
		apt-get install -y -qq chromium-headless-shell fonts-dejavu-core; } >/dev/null 2>&1 || \
		command -v chromium >/dev/null || apt-get install -y -qq chromium fonts-dejavu-core || \
		echo "No Chromium and no apt-get: the browser tests will be skipped."

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.app: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[app]'
	touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[test]'
	touch $@ $(VENV)/.app

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache build *.egg-info
