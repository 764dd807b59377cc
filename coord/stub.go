package coord

import "fjord/verbs"

type Cluster struct{}
type ClusterConfig struct {
	MemoryNodes, Replicas, Sessions int
	NodeMemory                      uint64
	HugePages                       verbs.HugePages
}

func (ClusterConfig) Validate() error { return nil }
