package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics serves a registry of its own over HTTP.
type metrics struct {
	registry *prometheus.Registry
	server   *http.Server
	addr     string
	served   chan error
}

const (
	metricsHeaderTimeout = 5 * time.Second
	metricsCloseTimeout  = time.Second
)

// serveMetrics listens on addr and serves /metrics until close.
func serveMetrics(addr string) (*metrics, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	m := &metrics{registry: prometheus.NewRegistry(), addr: l.Addr().String(), served: make(chan error, 1)}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry}))
	m.server = &http.Server{Handler: mux, ReadHeaderTimeout: metricsHeaderTimeout}
	go func() { m.served <- m.server.Serve(l) }()
	return m, nil
}

// close lets scrapes in progress end and frees the address.
func (m *metrics) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), metricsCloseTimeout)
	defer cancel()
	if err := m.server.Shutdown(ctx); err != nil {
		_ = m.server.Close()
	}
	if err := <-m.served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics at %s: %w", m.addr, err)
	}
	return nil
}
