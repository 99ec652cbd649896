# Two commands do everything: `make run` answers a prompt and leaves the service running, `make test` runs every test.
.PHONY: run test stop clean build bench sanitize fuzz format help

run:       ; @PROMPT='$(subst ','\'',$(PROMPT))' scripts/run.sh
test:      ; @scripts/test.sh
build:     ; @scripts/packages.sh && scripts/build.sh
bench:     ; @scripts/packages.sh && bench/run.sh
sanitize:  ; @scripts/packages.sh && scripts/sanitize.sh
fuzz:      ; @scripts/packages.sh && scripts/fuzz.sh
stop:      ; @if [ -x build/release/bin/gezel ]; then build/release/bin/gezel stop --force; else echo "nothing was built, nothing runs"; fi
# Caches and models stay: they are shared by all clones and long to fetch.
clean:     ; @if [ -x build/release/bin/gezel ]; then build/release/bin/gezel stop --force >/dev/null 2>&1 || true; fi; rm -rf build tests/e2e/node/node_modules
format:    ; @git ls-files 'src/*.h' 'src/*.cc' 'apps/*.cc' | xargs clang-format-19 -i
help:
	@echo "make run [PROMPT=\"...\"]  set up, build, start the service, stream an answer"
	@echo "make test                everything above and all tests"
	@echo "make stop | clean        end the service | also remove build outputs (caches and models stay)"
	@echo "make bench               our figures beside llama-bench and llama-server, with ratios"
	@echo "make sanitize | fuzz     tests under sanitizers | a short run of every fuzz target"
