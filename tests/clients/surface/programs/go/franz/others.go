package main

import (
	"context"
	"time"

	"surface/surface"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func security(admin surface.Target) {
	acls := kadm.NewACLs().Topics(one).Allow("User:me").AllowHosts().Operations(kadm.OpRead)
	filter := kadm.NewACLs().AnyResource(one).Allow("User:me").AllowHosts().Operations(kadm.OpRead)
	admin.Call("CreateACLs", "", acls)
	admin.Call("DescribeACLs", "", filter)
	admin.Call("DeleteACLs", "", filter)
	user := surface.Name("user")
	scram := kadm.UpsertSCRAM{User: user, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "secret"}
	admin.Call("AlterUserSCRAMs", "", []kadm.DeleteSCRAM(nil), []kadm.UpsertSCRAM{scram})
	admin.Call("DescribeUserSCRAMs", "", user)
	admin.Call("CreateDelegationToken", "", kadm.CreateDelegationToken{MaxLifetime: time.Minute})
	admin.Call("DescribeDelegationTokens", "")
	admin.Call("RenewDelegationToken", "", []byte("token"), time.Minute)
	admin.Call("ExpireDelegationToken", "", []byte("token"), time.Duration(0))
	entity := kadm.ClientQuotaEntity{{Type: "user", Name: kadm.StringPtr(user)}}
	quotas := []kadm.AlterClientQuotaEntry{{Entity: entity, Ops: []kadm.AlterClientQuotaOp{{
		Key: "request_percentage", Value: 50,
	}}}}
	admin.Call("ValidateAlterClientQuotas", "", quotas)
	admin.Call("AlterClientQuotas", "", quotas)
	admin.Call("DescribeClientQuotas", "", true, []kadm.DescribeClientQuotaComponent{{
		Type: "user", MatchName: kadm.StringPtr(user), MatchType: kmsg.QuotasMatchTypeExact,
	}})
}

func cluster(admin surface.Target, client *kadm.Client) {
	admin.Call("ApiVersions", "")
	partition := kadm.TopicsSet{one: {0: {}}}
	directory := kadm.AlterReplicaLogDirsReq{"/nowhere": partition}
	admin.Call("AlterAllReplicaLogDirs", "", directory)
	admin.Call("AlterBrokerReplicaLogDirs", "", int32(0), directory)
	admin.Do("DescribeAllLogDirs", "", func(limited context.Context) (any, error) {
		of, err := client.DescribeAllLogDirs(limited, partition)
		return held(of[0]), err
	})
	admin.Do("DescribeBrokerLogDirs", "", func(limited context.Context) (any, error) {
		of, err := client.DescribeBrokerLogDirs(limited, 0, partition)
		return held(of), err
	})
	admin.Call("AlterPartitionAssignments", "", kadm.AlterPartitionAssignmentsReq{one: {0: {0}}})
	admin.Call("ListPartitionReassignments", "", partition)
	admin.Call("ElectLeaders", "", kadm.ElectPreferredReplica, partition)
	admin.Call("UpdateFeatures", "", true, kadm.FeatureUpdate{Feature: "group.version", MaxVersionLevel: 1, UpgradeType: 1})
	share := surface.Name("share")
	admin.Call("AlterShareGroupOffsets", "", share, kadm.Offsets{one: {0: {Topic: one, At: 1}}})
	admin.Call("DescribeShareGroupOffsets", "", share)
	admin.Call("DescribeShareGroups", "", share)
	admin.Call("DeleteShareGroupOffsets", "", share, one)
	admin.Call("FindShareCoordinators", "", share)
}

// held is what directories hold; where they are and how large their disk is, is chance.
func held(directories kadm.DescribedLogDirs) (found []any) {
	for _, each := range directories {
		for topic, partitions := range each.Topics {
			for number, partition := range partitions {
				found = append(found, []any{each.Err, topic, number, partition.Size, partition.OffsetLag, partition.IsFuture})
			}
		}
	}
	return found
}
