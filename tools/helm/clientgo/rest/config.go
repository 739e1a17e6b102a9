package rest

// Config would say how to reach a cluster.
type Config struct{}
