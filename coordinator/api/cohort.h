#pragma once

// The whole C++ API, under TensorFlow's names where TensorFlow has one:
//
//   Runtime              threads, clock, files and network of the program
//   ClusterResolver      the cluster, from TF_CONFIG; LocalCluster starts a cluster of its own
//   ClusterCoordinator   Schedule, Join and Fetch, with the classes that belong to them:
//                        VariableScope, Variable, ShardedVariable, CachingScope, RemoteValue,
//                        InputPipeline
//   GraphBuilder         a step's graph; AddGradients differentiates the graph, BindProgram makes
//                        a program of it
//   CheckpointManager    checkpoints in TensorFlow's format
//   TrainingStrategy     a strategy that connects to its cluster when it is first used
//   MakeStrategy         the strategies of a job file: the tasks that they need, and their replicas
//
// docs/examples has five programs of at most 80 lines, with a CMakeLists.txt. This header and the
// headers that it includes are all that an installed Cohort has. The classes that do the work (the
// scheduler, the connections to the tasks, the recovery) are not among them.

#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/cluster/tf_config.h"
#include "common/program/bind.h"
#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/records/record_writer.h"
#include "common/tensor/slice_spec.h"
#include "common/tensor/tensor.h"
#include "coordinator/api/checkpoint_manager.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/api/input_pipeline.h"
#include "coordinator/api/replica_values.h"
#include "coordinator/api/runtime.h"
#include "coordinator/api/sharded_variable.h"
#include "coordinator/api/training_strategy.h"
#include "coordinator/api/variable.h"
#include "coordinator/local/local_cluster.h"
#include "coordinator/strategy/make_strategy.h"
