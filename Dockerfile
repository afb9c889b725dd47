# Sluice on an empty image: one static binary, not root, no shell.
#
#   docker build -t sluice .
#   docker run -p 8080:8080 -e SLUICE_ORIGIN=http://api:3000 sluice
#
# A policy of your own goes to /etc/sluice/config.yaml; it listens on 0.0.0.0:8080.

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/sluice .
# Where a journal of records can be kept: store.memory.journal: /data/records.journal
RUN mkdir /out/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/sluice /sluice
COPY --from=build --chown=65532:65532 /out/data /data
COPY deploy/container.yaml /etc/sluice/config.yaml
USER 65532:65532
EXPOSE 8080
# Draining (5 s) and running requests (30 s) take at most this long by default;
# give the container a little more: docker stop -t 40.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=4s --start-period=5s CMD ["/sluice", "healthcheck"]
ENTRYPOINT ["/sluice"]
CMD ["run", "--config", "/etc/sluice/config.yaml"]
