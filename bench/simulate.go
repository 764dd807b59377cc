package bench

import (
	"context"
	"fmt"
	"time"

	"fjord/coord"
	"fjord/txn"
	"fjord/verbs"
	"fjord/verbs/sim"
)

// turnNS is the processor's time between two waits of a coordinator: where many
// share a processor a transaction of SmallBank takes 2.2 turns, hence 1 µs, about what
// was measured of the engine (docs/benchmarks.md). The doorbells that it rings come
// on top, as the model of the NIC has them.
const turnNS = 450

// simulation is the world of a run in virtual time: memory nodes and compute nodes
// on hosts of their own.
type simulation struct {
	world   *sim.World
	nic     sim.NIC
	cfg     *Config
	memory  []*sim.Host
	compute []*sim.Host
	cluster *coord.Cluster
	began   time.Time
}

// simulate is a run in a world of its own.
func (r *run) simulate(ctx context.Context) (res *Result, err error) {
	s, err := newSimulation(r.cfg)
	if err != nil {
		return nil, err
	}
	defer s.world.Close()
	r.sim, r.rt, r.tick = s, s.world, virtualTickInterval
	if e := s.world.Run(func() {
		if err = r.openSimulated(ctx); err == nil {
			res, err = r.whole(ctx)
		}
		if e := s.close(); err == nil {
			err = e
		}
	}); e != nil {
		return nil, e
	}
	if res != nil {
		res.RealSeconds = time.Since(s.began).Seconds()
	}
	return res, err
}

func newSimulation(c *Config) (*simulation, error) {
	s := &simulation{cfg: c, began: time.Now()}
	var err error
	if s.nic, err = sim.NICByName(c.NIC); err != nil {
		return nil, err
	}
	if s.world, err = sim.New(sim.Options{Seed: c.Seed, NIC: s.nic}); err != nil {
		return nil, err
	}
	for i := range c.hosts() {
		h, err := s.world.AddHost(fmt.Sprintf("compute-%d", i), sim.HostOptions{Cores: c.Threads, TurnNS: turnNS})
		if err != nil {
			return nil, err
		}
		s.compute = append(s.compute, h)
	}
	return s, nil
}

// close stops the memory nodes.
func (s *simulation) close() error {
	if s.cluster == nil {
		return nil
	}
	if err := s.cluster.Close(); err != nil {
		return fmt.Errorf("stopping the memory nodes: %w", err)
	}
	return nil
}

// openSimulated starts the memory nodes, and joins a database on every compute
// node.
func (r *run) openSimulated(ctx context.Context) (err error) {
	o, err := r.options()
	if err != nil {
		return err
	}
	s := r.sim
	var home *sim.Host // of the coordinator that joins next; nil: memory nodes are made
	cluster, err := coord.NewCluster(r.cfg.cluster(&o), func(name string) (verbs.Device, error) {
		if home != nil {
			return home.OpenDevice()
		}
		h, err := s.world.AddHost(name, sim.HostOptions{})
		if err != nil {
			return nil, err
		}
		s.memory = append(s.memory, h)
		return h.OpenDevice()
	})
	if err != nil {
		return fmt.Errorf("starting the memory nodes: %w", err)
	}
	s.cluster = cluster
	o.MemoryNodes, o.Replicas, o.NodeMemory, o.LogSlot, o.HugePages = 0, 0, 0, 0, 0 // the cluster has them
	o.Cluster = cluster
	for _, home = range s.compute {
		db, err := txn.Open(ctx, o)
		if err != nil {
			_ = r.close() // the first error is the one to tell
			return fmt.Errorf("opening the database on %s: %w", home.Name(), err)
		}
		r.dbs = append(r.dbs, db)
	}
	return nil
}

// cluster is the cluster that a simulated run needs for a database of options o on
// each compute node.
func (c *Config) cluster(o *txn.Options) coord.ClusterConfig {
	return coord.ClusterConfig{MemoryNodes: o.MemoryNodes, Replicas: o.Replicas, NodeMemory: o.NodeMemory,
		Coordinators: c.hosts(), Sessions: o.Sessions, LogSlot: o.LogSlot, HugePages: o.HugePages}
}
