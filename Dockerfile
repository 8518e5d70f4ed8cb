# docker build -t leakmeter .                                  for a CPU
# docker build -t leakmeter:cuda --build-arg DEVICE=cuda .     for CUDA: docker run --gpus all …
#
# docker run --rm -v "$PWD:/data" --user "$(id -u):$(id -g)" leakmeter influence --data cases.jsonl
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
ARG DEVICE=cpu
WORKDIR /source
RUN python -m venv /opt/leakmeter
COPY locks ./locks
RUN case "$DEVICE" in \
      cpu) set -- -r locks/torch-cpu.txt --extra-index-url https://download.pytorch.org/whl/cpu ;; \
      cuda) set -- -r locks/base.txt -r locks/cuda.txt ;; \
      *) echo "DEVICE is '$DEVICE'; it has to be cpu or cuda" >&2; exit 1 ;; \
    esac && \
    /opt/leakmeter/bin/pip install --no-cache-dir --no-deps --require-hashes "$@"
RUN /opt/leakmeter/bin/pip install --no-cache-dir --no-deps --require-hashes -r locks/build.txt -r locks/base.txt
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /opt/leakmeter/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:${PYTHON}-slim
COPY --from=build /opt/leakmeter /opt/leakmeter
# Whoever runs it: models, secrets and runs lie in the directory that is mounted at /data.
RUN useradd --uid 10001 --no-create-home --home-dir /data leakmeter && mkdir /data && chown leakmeter /data
ENV PATH=/opt/leakmeter/bin:$PATH HOME=/data
USER leakmeter
WORKDIR /data
ENTRYPOINT ["leakmeter"]
CMD ["--help"]
